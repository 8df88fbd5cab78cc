(** The equations that maintain temporal views (Yang and Widom 1998, sections 4 and 5).  (derivation/temporal)

    A temporal relation says of each row at which instants it is in the relation: the row's period set T.  Equations are
    numbered as in the paper.  They hold for any sets, not only for finite ones.  Where the reasoning needs it, a
    hypothesis says that membership is decided: a stored relation can be asked. *)

From Coq Require Import ZArith.
From Weft Require Import Relation.
Open Scope Z_scope.

Definition temporal (T : Type) : Type := T -> time -> Prop.

Definition same_lives {T} (R S : temporal T) : Prop := forall r t, R r t <-> S r t.
Definition decided {T} (R : temporal T) : Prop := forall r t, R r t \/ ~ R r t.

Infix "≡" := same_lives (at level 70).

Definition minus {T} (R S : temporal T) : temporal T := fun r t => R r t /\ ~ S r t.
Definition plus {T} (R S : temporal T) : temporal T := fun r t => R r t \/ S r t.
Definition both_of {T} (R S : temporal T) : temporal T := fun r t => R r t /\ S r t.
Definition projection {T U} (f : T -> U) (R : temporal T) : temporal U := fun v t => exists r, f r = v /\ R r t.

Infix "−" := minus (at level 50, left associativity).
Infix "∪" := plus (at level 50, left associativity).
Infix "∩" := both_of (at level 40, left associativity).

(** A predicate may mention the period set of a row.  It cannot distinguish equal sets. *)
Definition judges {T} (p : T -> (time -> Prop) -> Prop) : Prop :=
  forall r c d, (forall t, c t <-> d t) -> (p r c <-> p r d).

Definition selection {T} (p : T -> (time -> Prop) -> Prop) (R : temporal T) : temporal T :=
  fun r t => R r t /\ p r (R r).

Definition temporal_join {T U} (p : T -> (time -> Prop) -> U -> (time -> Prop) -> Prop)
  (R : temporal T) (S : temporal U) : temporal (T * U) :=
  fun x t => R (fst x) t /\ S (snd x) t /\ p (fst x) (R (fst x)) (snd x) (S (snd x)).

(** ** Theorem 4.2: difference, union, projection *)
Section Sets.
  Context {T U : Type}.
  Implicit Types R S D I : temporal T.

  Theorem c_1 R D S : (R − D) − S ≡ (R − S) − (D − S).
  Proof. intros r t. unfold minus. tauto. Qed.

  Theorem c_2 R I S : (R ∪ I) − S ≡ (R − S) ∪ (I − S).
  Proof. intros r t. unfold minus, plus. tauto. Qed.

  Theorem c_3 R S D : decided D -> R − (S − D) ≡ (R − S) ∪ (R ∩ D).
  Proof. intros d r t. specialize (d r t). unfold minus, plus, both_of. tauto. Qed.

  Theorem c_4 R S I : R − (S ∪ I) ≡ (R − S) − (R ∩ I).
  Proof. intros r t. unfold minus, plus, both_of. tauto. Qed.

  Theorem c_5 R D S : decided S -> (R − D) ∪ S ≡ (R ∪ S) − (D − S).
  Proof. intros d r t. specialize (d r t). unfold minus, plus. tauto. Qed.

  Theorem c_6 R I S : decided S -> (R ∪ I) ∪ S ≡ (R ∪ S) ∪ (I − S).
  Proof. intros d r t. specialize (d r t). unfold minus, plus. tauto. Qed.

  Theorem c_7 (f : T -> U) R D : decided (projection f (R − D)) ->
    projection f (R − D) ≡ projection f R − (projection f R − projection f (R − D)).
  Proof.
    intros d v t. specialize (d v t). split.
    - intros P. split; [| unfold minus; tauto]. destruct P as [r [E [P _]]]. now exists r.
    - intros [P N]. destruct d as [Q | Q]; [assumption |]. exfalso. apply N. now split.
  Qed.

  Theorem c_8 (f : T -> U) R I : decided (projection f R) ->
    projection f (R ∪ I) ≡ projection f R ∪ (projection f I − projection f R).
  Proof.
    intros d v t. specialize (d v t). unfold plus at 2, minus. split.
    - intros [r [E [P | P]]]; [left; now exists r |].
      destruct d as [Q | N]; [now left | right]. split; [now exists r | assumption].
    - intros [[r [E P]] | [[r [E P]] _]]; exists r; unfold plus; auto.
  Qed.

  (** Deletions and insertions at once.  After the change, R is (R − D) ∪ I. *)
  Theorem projection_at_once (f : T -> U) R D I : let new := (R − D) ∪ I in
    decided (projection f R) -> decided (projection f new) ->
    projection f new ≡
    (projection f R − (projection f D − projection f new)) ∪ (projection f I − projection f R).
  Proof.
    intros new d e v t. specialize (d v t). specialize (e v t). unfold plus, minus. split.
    - intros N. destruct d as [P | P]; [left; tauto |]. right. split; [| assumption].
      destruct N as [r [E [[A _] | A]]]; [exfalso; apply P |]; now exists r.
    - intros [[[r [E P]] N] | [[r [E P]] _]].
      + destruct e as [Q | Q]; [assumption |]. exists r. split; [assumption |]. left. split; [assumption |].
        intros A. apply N. split; [now exists r | assumption].
      + exists r. split; [assumption | now right].
  Qed.
End Sets.

(** ** Pure deltas and Theorem 4.3 *)
Section Pure.
  Context {T : Type}.
  Implicit Types R D I : temporal T.

  Definition within D R : Prop := forall r t, D r t -> R r t.

  (** A pure deletion removes a row with its whole period set, or leaves it.  A pure insertion adds rows that were
      absent. *)
  Definition pure_deletion R D : Prop := forall r, (forall t, ~ D r t) \/ (forall t, R r t -> D r t).
  Definition pure_insertion R I : Prop := forall r, (forall t, ~ I r t) \/ (forall t, ~ R r t).

  (** The complete tuples that a delta touches, and what the delta makes of them. *)
  Definition touched_row D I (r : T) : Prop := exists t, D r t \/ I r t.
  Definition whole R D I : temporal T := fun r t => R r t /\ touched_row D I r.
  Definition remade R D I : temporal T := (whole R D I − D) ∪ I.

  Hypothesis can_tell : forall D I r, touched_row D I r \/ ~ touched_row D I r.

  Theorem theorem_4_3 R D I :
    (R − D) ∪ I ≡ (R − whole R D I) ∪ remade R D I /\
    pure_deletion R (whole R D I) /\ pure_insertion (R − whole R D I) (remade R D I).
  Proof.
    split; [| split].
    - intros r t. destruct (can_tell D I r) as [K | N]; unfold remade, whole, minus, plus; [tauto |].
      assert (A : ~ I r t) by (intros P; apply N; exists t; now right).
      assert (B : ~ D r t) by (intros P; apply N; exists t; now left). tauto.
    - intros r. destruct (can_tell D I r) as [K | N]; unfold whole; [right | left]; intros t; tauto.
    - intros r. destruct (can_tell D I r) as [K | N].
      + right. intros t. unfold whole, minus. tauto.
      + left. intros t [[[_ K] _] | P]; [contradiction |]. apply N. exists t. now right.
  Qed.
End Pure.

(** ** Theorems 4.2 and 4.4: selection and join.  Without periods in the predicate, any delta will do. *)
Section SelectionAndJoin.
  Context {T U : Type}.
  Implicit Types R D I : temporal T.

  Theorem c_9 (p : T -> Prop) R D :
    selection (fun r _ => p r) (R − D) ≡ selection (fun r _ => p r) R − selection (fun r _ => p r) D.
  Proof. intros r t. unfold selection, minus. tauto. Qed.

  Theorem c_10 (p : T -> Prop) R I :
    selection (fun r _ => p r) (R ∪ I) ≡ selection (fun r _ => p r) R ∪ selection (fun r _ => p r) I.
  Proof. intros r t. unfold selection, plus. tauto. Qed.

  Theorem c_11 (p : T -> U -> Prop) R D (S : temporal U) : let q r (_ : time -> Prop) s (_ : time -> Prop) := p r s in
    temporal_join q (R − D) S ≡ temporal_join q R S − temporal_join q D S.
  Proof. intros q [r s] t. unfold q, temporal_join, minus. simpl. tauto. Qed.

  Theorem c_12 (p : T -> U -> Prop) R I (S : temporal U) : let q r (_ : time -> Prop) s (_ : time -> Prop) := p r s in
    temporal_join q (R ∪ I) S ≡ temporal_join q R S ∪ temporal_join q I S.
  Proof. intros q [r s] t. unfold q, temporal_join, plus. simpl. tauto. Qed.

  Lemma left_alone R D r : (forall t, ~ D r t) -> forall t, R r t <-> (R − D) r t.
  Proof. intros N t. specialize (N t). unfold minus. tauto. Qed.

  Lemma taken_whole R D r : within D R -> (forall t, R r t -> D r t) -> forall t, R r t <-> D r t.
  Proof. intros W A t. split; [apply A | apply W]. Qed.

  Theorem c_13 p R D : judges p -> within D R -> pure_deletion R D ->
    selection p (R − D) ≡ selection p R − selection p D.
  Proof.
    intros J W P r t. unfold selection at 1 2. unfold minus at 2. destruct (P r) as [N | A].
    - pose proof (J r _ _ (left_alone R D r N)). specialize (N t). unfold minus, selection in *. tauto.
    - pose proof (J r _ _ (taken_whole R D r W A)). specialize (A t). unfold minus, selection in *. tauto.
  Qed.

  Theorem c_14 p R I : judges p -> pure_insertion R I -> selection p (R ∪ I) ≡ selection p R ∪ selection p I.
  Proof.
    intros J P r t. unfold selection. destruct (P r) as [N | A].
    - assert (E : forall u, (R ∪ I) r u <-> R r u) by (intros u; specialize (N u); unfold plus; tauto).
      pose proof (J r _ _ E). specialize (N t). unfold plus in *. tauto.
    - assert (E : forall u, (R ∪ I) r u <-> I r u) by (intros u; specialize (A u); unfold plus; tauto).
      pose proof (J r _ _ E). specialize (A t). unfold plus in *. tauto.
  Qed.

  Theorem c_15 (p : T -> (time -> Prop) -> U -> (time -> Prop) -> Prop) R D (S : temporal U) :
    (forall s e, judges (fun r c => p r c s e)) -> within D R -> pure_deletion R D ->
    temporal_join p (R − D) S ≡ temporal_join p R S − temporal_join p D S.
  Proof.
    intros J W P [r s] t. unfold temporal_join. simpl. destruct (P r) as [N | A].
    - pose proof (J s (S s) r _ _ (left_alone R D r N)). specialize (N t). unfold minus in *. simpl in *. tauto.
    - pose proof (J s (S s) r _ _ (taken_whole R D r W A)). specialize (A t). unfold minus in *. simpl in *. tauto.
  Qed.

  Theorem c_16 (p : T -> (time -> Prop) -> U -> (time -> Prop) -> Prop) R I (S : temporal U) :
    (forall s e, judges (fun r c => p r c s e)) -> pure_insertion R I ->
    temporal_join p (R ∪ I) S ≡ temporal_join p R S ∪ temporal_join p I S.
  Proof.
    intros J P [r s] t. unfold temporal_join. simpl. destruct (P r) as [N | A].
    - assert (E : forall u, (R ∪ I) r u <-> R r u) by (intros u; specialize (N u); unfold plus; tauto).
      pose proof (J s (S s) r _ _ E). specialize (N t). unfold plus in *. simpl in *. tauto.
    - assert (E : forall u, (R ∪ I) r u <-> I r u) by (intros u; specialize (A u); unfold plus; tauto).
      pose proof (J s (S s) r _ _ E). specialize (A t). unfold plus in *. simpl in *. tauto.
  Qed.

  (** *** Deletions and insertions of both inputs at once: each term reads old states only, or new states only *)

  Theorem joins_at_once (p : T -> U -> Prop) R D I (S E J : temporal U) :
    let q r (_ : time -> Prop) s (_ : time -> Prop) := p r s in
    let R' := (R − D) ∪ I in let S' := (S − E) ∪ J in
    temporal_join q R' S' ≡
    (temporal_join q R S − (temporal_join q D S ∪ temporal_join q R E)) ∪
    (temporal_join q I S' ∪ temporal_join q R' J).
  Proof. intros q R' S' [r s] t. unfold q, R', S', temporal_join, minus, plus. simpl. tauto. Qed.

  (** Pure deltas leave a tuple as it is, or replace the complete tuple. *)
  Lemma left_or_replaced {V} (R D I : temporal V) r :
    within D R -> pure_deletion R D -> pure_insertion (R − D) I ->
    (forall t, (((R − D) ∪ I) r t <-> R r t) /\ ~ D r t /\ ~ I r t) \/
    (forall t, (((R − D) ∪ I) r t <-> I r t) /\ (D r t <-> R r t)).
  Proof.
    intros W P Q. specialize (W r). destruct (P r) as [N | A], (Q r) as [M | B]; unfold plus, minus in *.
    - left. intros t. specialize (N t). specialize (M t). tauto.
    - right. intros t. specialize (N t). specialize (B t). specialize (W t). tauto.
    - right. intros t. specialize (A t). specialize (M t). specialize (W t). tauto.
    - right. intros t. specialize (A t). specialize (B t). specialize (W t). tauto.
  Qed.

  Theorem tuples_at_once (p : T -> (time -> Prop) -> U -> (time -> Prop) -> Prop) R D I (S E J : temporal U) :
    (forall s e, judges (fun r c => p r c s e)) -> (forall r c, judges (fun s e => p r c s e)) ->
    within D R -> pure_deletion R D -> pure_insertion (R − D) I ->
    within E S -> pure_deletion S E -> pure_insertion (S − E) J ->
    let R' := (R − D) ∪ I in let S' := (S − E) ∪ J in
    temporal_join p R' S' ≡
    (temporal_join p R S − (temporal_join p D S ∪ temporal_join p R E)) ∪
    (temporal_join p I S' ∪ temporal_join p R' J).
  Proof.
    intros K L WD PD PI WE PE PJ R' S' [r s] t.
    assert (same : forall c c' e e', (forall u, c u <-> c' u) -> (forall u, e u <-> e' u) ->
      (p r c s e <-> p r c' s e')).
    { intros c c' e e' C F. pose proof (K s e r c c' C). pose proof (L r c' s e e' F). simpl in *. tauto. }
    pose proof (left_or_replaced R D I r WD PD PI) as A. pose proof (left_or_replaced S E J s WE PE PJ) as B.
    fold R' in A. fold S' in B. unfold temporal_join, plus at 1 2 3, minus at 1. simpl.
    assert (refl : forall V (c : V -> Prop) u, c u <-> c u) by tauto.
    destruct A as [A | A], B as [B | B].
    - pose proof (same (R' r) (R r) (S' s) (S s) (fun u => proj1 (A u)) (fun u => proj1 (B u))).
      specialize (A t). specialize (B t). tauto.
    - pose proof (same (R r) (R r) (E s) (S s) (refl _ _) (fun u => proj2 (B u))).
      pose proof (same (R' r) (R' r) (S' s) (J s) (refl _ _) (fun u => proj1 (B u))).
      specialize (A t). specialize (B t). tauto.
    - pose proof (same (D r) (R r) (S s) (S s) (fun u => proj2 (A u)) (refl _ _)).
      pose proof (same (R' r) (I r) (S' s) (S' s) (fun u => proj1 (A u)) (refl _ _)).
      specialize (A t). specialize (B t). tauto.
    - pose proof (same (D r) (R r) (S s) (S s) (fun u => proj2 (A u)) (refl _ _)).
      pose proof (same (R' r) (I r) (S' s) (S' s) (fun u => proj1 (A u)) (refl _ _)).
      pose proof (same (R' r) (R' r) (S' s) (J s) (refl _ _) (fun u => proj1 (B u))).
      specialize (A t). specialize (B t). tauto.
  Qed.

  (** *** As time passes: the predicate at t, [p], and at t_now, [q] *)

  Theorem r_6 (p q : T -> (time -> Prop) -> Prop) R :
    (forall r, p r (R r) \/ ~ p r (R r)) -> (forall r, q r (R r) \/ ~ q r (R r)) ->
    selection q R ≡
    (selection p R − selection (fun r c => p r c /\ ~ q r c) R) ∪ selection (fun r c => q r c /\ ~ p r c) R.
  Proof. intros d e r t. specialize (d r). specialize (e r). unfold selection, minus, plus. tauto. Qed.

  Theorem r_7 (p q : T -> (time -> Prop) -> U -> (time -> Prop) -> Prop) R (S : temporal U) :
    (forall r s, p r (R r) s (S s) \/ ~ p r (R r) s (S s)) ->
    (forall r s, q r (R r) s (S s) \/ ~ q r (R r) s (S s)) ->
    temporal_join q R S ≡
    (temporal_join p R S − temporal_join (fun r c s e => p r c s e /\ ~ q r c s e) R S) ∪
    temporal_join (fun r c s e => q r c s e /\ ~ p r c s e) R S.
  Proof.
    intros d e [r s] t. specialize (d r s). specialize (e r s). unfold temporal_join, minus, plus. simpl. tauto.
  Qed.
End SelectionAndJoin.

(** ** Section 5: EX_w, and aggregates that compute touched groups again *)
Section ExtensionAndAggregation.
  Context {T K V : Type}.
  Implicit Types R D I : temporal T.

  Definition extension (w : Z) R : temporal T := fun r t => exists u, t - w <= u <= t /\ R r u.

  Theorem extension_deleted w R D : decided (extension w (R − D)) -> decided D ->
    extension w (R − D) ≡ extension w R − (extension w D − extension w (R − D)).
  Proof.
    intros d e r t. specialize (d r t). split.
    - intros P. split; [| unfold minus; tauto]. destruct P as [u [B [P _]]]. now exists u.
    - intros [[u [B P]] N]. destruct d as [Q | Q]; [assumption |]. exfalso. apply N. split; [| assumption].
      exists u. split; [assumption |]. destruct (e r u) as [Y | Y]; [assumption |].
      exfalso. apply Q. exists u. split; [assumption | now split].
  Qed.

  Theorem extension_inserted w R I : decided (extension w R) ->
    extension w (R ∪ I) ≡ extension w R ∪ (extension w I − extension w R).
  Proof.
    intros d r t. specialize (d r t). split.
    - intros [u [B [P | P]]]; [left; now exists u |].
      destruct d as [Q | Q]; [now left | right]. split; [now exists u | assumption].
    - intros [[u [B P]] | [[u [B P]] _]]; exists u; split; auto; [now left | now right].
  Qed.

  (** The rows of a group at an instant, and the values [v] that they give it.  [gives] is any aggregate. *)
  Context (part : T -> K) (gives : K -> (T -> Prop) -> V -> Prop).
  Hypothesis by_rows : forall k c d v, (forall r, c r <-> d r) -> (gives k c v <-> gives k d v).

  Definition aggregation R : temporal (K * V) := fun x t => gives (fst x) (fun r => part r = fst x /\ R r t) (snd x).

  Definition touched_group D I (k : K) (t : time) : Prop := exists r, part r = k /\ (D r t \/ I r t).
  Definition of_touched D I (A : temporal (K * V)) : temporal (K * V) :=
    fun x t => touched_group D I (fst x) t /\ A x t.

  (** Delete the old values of the touched groups at the touched instants, and insert the new ones. *)
  Theorem aggregation_recomputed R D I : (forall k t, touched_group D I k t \/ ~ touched_group D I k t) ->
    let new := (R − D) ∪ I in
    aggregation new ≡ (aggregation R − of_touched D I (aggregation R)) ∪ of_touched D I (aggregation new).
  Proof.
    intros d new [k v] t. unfold of_touched, plus at 1, minus at 1. simpl. destruct (d k t) as [Y | N]; [tauto |].
    assert (E : forall r, part r = k /\ R r t <-> part r = k /\ new r t).
    { intros r. unfold new, plus, minus. split; intros [P Q]; split; auto.
      - left. split; [assumption |]. intros X. apply N. exists r. auto.
      - destruct Q as [[Q _] | Q]; [assumption |]. exfalso. apply N. exists r. auto. }
    pose proof (by_rows k _ _ v E). unfold aggregation. simpl. tauto.
  Qed.
End ExtensionAndAggregation.
