(** Laws 1 and 2 of the design.  (derivation/incremental.py)

    A tick delivers, of the events in its window, the rows that the query has not delivered before.  Law 1: after any
    ticks, the delivered rows are those that were in the answer at some instant, each once and with the first such
    instant.  Law 2: it does not matter where the ticks are. *)

From Coq Require Import ZArith List Bool Lia Permutation.
From Weft Require Import Multisets Relation.
Import ListNotations.
Open Scope Z_scope.

(** The [n] instants from [s] on, and the instants of the window [from, to). *)
Fixpoint instants (s : time) (n : nat) : list time := match n with
  | O => []
  | S m => s :: instants (s + 1) m
  end.

Definition window (from to : time) : list time := instants from (Z.to_nat (to - from)).

Lemma instants_spec n : forall s u, In u (instants s n) <-> s <= u < s + Z.of_nat n.
Proof. induction n; intros s u; simpl; [lia |]. rewrite IHn. lia. Qed.

Lemma window_spec from to s : In s (window from to) <-> from <= s < to.
Proof. unfold window. rewrite instants_spec. lia. Qed.

Section Deliveries.
  Context {T : Type} `{Row T}.

  Definition contains (r : T) (l : list T) : bool := if in_or_not r l then true else false.

  Lemma contains_spec r l : contains r l = true <-> In r l.
  Proof. unfold contains. destruct (in_or_not r l); split; easy. Qed.

  (** The first of the instants [w], in their order, at which the row has an event. *)
  Definition first_event (E : relation T) (w : list time) (r : T) : option time :=
    find (fun s => contains r (starts E s)) w.

  (** What a tick with the window [from, to) delivers if the query has the answers [known]: each new row once, with the
      first instant of its events. *)
  Definition tick (E : relation T) (known : list T) (from to : time) : list (T * time) :=
    flat_map (fun r => match first_event E (window from to) r with Some s => [(r, s)] | None => [] end)
      (filter (fun r => negb (contains r known)) (nodup same (flat_map (starts E) (window from to)))).

  (** The deliveries of the ticks at [ts], the first of which begins at [from]. *)
  Fixpoint deliveries (E : relation T) (known : list T) (from : time) (ts : list time) : list (T * time) :=
    match ts with
    | [] => []
    | t :: rest => let new := tick E known from t in new ++ deliveries E (map fst new ++ known) t rest
    end.

  (** Ticks never go back.  Two ticks may have one time. *)
  Fixpoint in_order (from : time) (ts : list time) : Prop := match ts with
    | [] => True
    | t :: rest => from <= t /\ in_order t rest
    end.

  (** The time up to which the ticks have delivered. *)
  Definition reached (from : time) (ts : list time) : time := fold_left (fun _ t => t) ts from.

  (** The row is in the answer at [s], and at no instant before. *)
  Definition first_answer (E : relation T) (r : T) (s : time) : Prop :=
    In r (at_instant E s) /\ forall u, u < s -> ~ In r (at_instant E u).

  (** ** One tick *)

  Lemma first_event_spec E r n : forall from s,
    find (fun s => contains r (starts E s)) (instants from n) = Some s <->
    from <= s < from + Z.of_nat n /\ In r (starts E s) /\ forall u, from <= u < s -> ~ In r (starts E u).
  Proof.
    induction n as [| n IH]; intros from s; simpl; [split; [easy | lia] |].
    destruct (contains r (starts E from)) eqn:C.
    - apply contains_spec in C. split.
      + injection 1 as <-. repeat split; auto; lia.
      + intros [B [I N]]. destruct (Z.eq_dec from s) as [-> | D]; [reflexivity |].
        exfalso. apply (N from); [lia | assumption].
    - apply not_true_iff_false in C. rewrite contains_spec in C. rewrite IH. split; intros [B [I N]].
      + repeat split; auto; try lia. intros u U. destruct (Z.eq_dec u from) as [-> | D]; [assumption | apply N; lia].
      + destruct (Z.eq_dec s from) as [-> | D]; [contradiction |]. repeat split; auto; try lia.
        intros u U. apply N. lia.
  Qed.

  Lemma tick_spec E known from to r s : In (r, s) (tick E known from to) <->
    ~ In r known /\ from <= s < to /\ In r (starts E s) /\ forall u, from <= u < s -> ~ In r (starts E u).
  Proof.
    unfold tick. rewrite in_flat_map. split.
    - intros [x [I S]]. apply filter_In in I as [_ K]. rewrite negb_true_iff, <- not_true_iff_false, contains_spec in K.
      destruct (first_event E (window from to) x) as [u |] eqn:F; simpl in S; [| easy].
      destruct S as [S | []]. injection S as -> ->. split; [assumption |].
      apply first_event_spec in F as [B F]. split; [lia | assumption].
    - intros [K [B [I N]]]. exists r. rewrite filter_In, negb_true_iff, <- not_true_iff_false, contains_spec, nodup_In.
      repeat split; [| assumption |].
      + apply in_flat_map. exists s. now rewrite window_spec.
      + replace (first_event E (window from to) r) with (Some s); [now left |].
        symmetry. apply first_event_spec. split; [lia | auto].
  Qed.

  Lemma rows_of_picked (pick : T -> option time) rows :
    map fst (flat_map (fun r => match pick r with Some s => [(r, s)] | None => [] end) rows) =
    filter (fun r => match pick r with Some _ => true | None => false end) rows.
  Proof. induction rows as [| r rows IH]; simpl; [reflexivity |]. destruct (pick r); simpl; congruence. Qed.

  Lemma tick_once E known from to : NoDup (map fst (tick E known from to)).
  Proof. unfold tick. rewrite rows_of_picked. apply NoDup_filter, NoDup_filter, NoDup_nodup. Qed.

  (** ** Any ticks *)

  Context (E : relation T) (L : lawful E) (t0 : time).
  Hypothesis begins : forall s, s < t0 -> at_instant E s = [].

  (** A row that is ever in the answer has a first instant. *)
  Lemma first_exists r n : In r (at_instant E (t0 + Z.of_nat n)) ->
    exists s, t0 <= s <= t0 + Z.of_nat n /\ first_answer E r s.
  Proof.
    assert (S : forall m, (exists s, t0 <= s < t0 + Z.of_nat m /\ first_answer E r s) \/
      (forall u, u < t0 + Z.of_nat m -> ~ In r (at_instant E u))).
    { induction m as [| m [[s [B F]] | N]].
      - right. intros u U. rewrite begins by lia. easy.
      - left. exists s. split; [lia | assumption].
      - destruct (in_or_not r (at_instant E (t0 + Z.of_nat m))) as [I | I].
        + left. exists (t0 + Z.of_nat m). split; [lia |]. split; assumption.
        + right. intros u U. destruct (Z.eq_dec u (t0 + Z.of_nat m)) as [-> | D]; [assumption | apply N; lia]. }
    intros I. destruct (S (Datatypes.S n)) as [[s [B F]] | N].
    - exists s. split; [lia | assumption].
    - exfalso. apply (N (t0 + Z.of_nat n)); [lia | assumption].
  Qed.

  Lemma answer_has_first r u : In r (at_instant E u) -> exists s, t0 <= s <= u /\ first_answer E r s.
  Proof.
    intros I. destruct (Z_lt_le_dec u t0) as [B | B]; [now rewrite begins in I |].
    replace u with (t0 + Z.of_nat (Z.to_nat (u - t0))) in * by lia. now apply first_exists.
  Qed.

  (** What is known when a window begins at [from]: exactly the rows that were in the answer before. *)
  Definition up_to_date (known : list T) (from : time) : Prop :=
    forall r, In r known <-> exists s, s < from /\ In r (at_instant E s).

  Lemma tick_delivers known from to r s : t0 <= from -> up_to_date known from ->
    In (r, s) (tick E known from to) <-> from <= s < to /\ first_answer E r s.
  Proof.
    intros F K. rewrite tick_spec, (K r). split.
    - intros [New [B [I N]]]. split; [assumption |]. split; [now apply (starts_sound E L) |].
      intros u U J. destruct (answer_has_first r u J) as [v [V [IV NV]]].
      destruct (Z_lt_le_dec v from) as [P | P]; [apply New; eauto |].
      apply (N v); [lia |]. apply (entry_is_event E L); [assumption | apply NV; lia].
    - intros [B [I N]]. split; [| split; [assumption | split]].
      + intros [u [U J]]. apply (N u); [lia | assumption].
      + apply (entry_is_event E L); [assumption | apply N; lia].
      + intros u U J. apply (N u); [lia | now apply (starts_sound E L)].
  Qed.

  Lemma tick_up_to_date known from to : t0 <= from <= to -> up_to_date known from ->
    up_to_date (map fst (tick E known from to) ++ known) to.
  Proof.
    intros B K r. rewrite in_app_iff, in_map_iff, (K r). split.
    - intros [[[x s] [<- I]] | [s [S I]]].
      + apply tick_delivers in I as [P [I _]]; [| lia | assumption]. exists s. split; [lia | assumption].
      + exists s. split; [lia | assumption].
    - intros [s [S I]]. destruct (answer_has_first r s I) as [u [U F]].
      destruct (Z_lt_le_dec u from) as [P | P].
      + right. exists u. split; [assumption | apply F].
      + left. exists (r, u). split; [reflexivity |].
        apply tick_delivers; [lia | assumption | split; [lia | assumption]].
  Qed.

  Lemma deliveries_spec ts : forall known from, t0 <= from -> in_order from ts -> up_to_date known from ->
    from <= reached from ts /\
    (forall r s, In (r, s) (deliveries E known from ts) <-> from <= s < reached from ts /\ first_answer E r s) /\
    NoDup (map fst (deliveries E known from ts)).
  Proof.
    induction ts as [| t ts IH]; intros known from F O K; simpl.
    - split; [unfold reached; simpl; lia |]. split; [| constructor]. intros r s. unfold reached; simpl. lia.
    - destruct O as [B O]. assert (U := tick_up_to_date known from t ltac:(lia) K).
      destruct (IH _ t ltac:(lia) O U) as [R [D N]]. unfold reached in *; simpl in *.
      split; [lia |]. split.
      + intros r s. rewrite in_app_iff, tick_delivers, D by assumption.
        split; [intros [[P Q] | [P Q]]; split; auto; lia |]. intros [P Q].
        destruct (Z_lt_le_dec s t); [left | right]; split; auto; lia.
      + rewrite map_app. apply nodup_app; [apply tick_once | assumption |].
        intros r I J. apply in_map_iff in I as [[x s] [<- I]]. apply in_map_iff in J as [[y u] [Y J]].
        simpl in *; subst y.
        apply tick_delivers in I as [P [I _]]; [| assumption | assumption]. apply D in J as [Q [_ M]].
        apply (M s); [lia | assumption].
  Qed.

  Lemma nothing_known : up_to_date [] t0.
  Proof. intros r. split; [easy |]. intros [s [S I]]. now rewrite begins in I. Qed.

  (** *** Law 1 *)
  Theorem law_1 ts : in_order t0 ts -> forall r s,
    In (r, s) (deliveries E [] t0 ts) <-> s < reached t0 ts /\ first_answer E r s.
  Proof.
    intros O r s. destruct (deliveries_spec ts [] t0 (Z.le_refl t0) O nothing_known) as [_ [D _]]. rewrite D.
    split; intros [B F]; split; auto; try lia. split; [| assumption].
    destruct (Z_lt_le_dec s t0) as [P | P]; [| assumption]. destruct F as [I _]. now rewrite begins in I.
  Qed.

  (** The delivered rows are the union of the answers at every instant before the last tick. *)
  Theorem law_1_rows ts : in_order t0 ts -> forall r,
    In r (map fst (deliveries E [] t0 ts)) <-> exists s, s < reached t0 ts /\ In r (at_instant E s).
  Proof.
    intros O r. rewrite in_map_iff. split.
    - intros [[x s] [<- I]]. apply law_1 in I as [B [I _]]; [| assumption]. exists s. auto.
    - intros [s [B I]]. destruct (answer_has_first r s I) as [u [U F]]. exists (r, u). split; [reflexivity |].
      apply law_1; [assumption |]. split; [lia | assumption].
  Qed.

  (** No row is delivered twice. *)
  Theorem law_1_once ts : in_order t0 ts -> NoDup (map fst (deliveries E [] t0 ts)).
  Proof. intros O. apply (deliveries_spec ts [] t0 (Z.le_refl t0) O nothing_known). Qed.

  (** *** Law 2: two schedules that reach the same time deliver the same rows with the same first instants. *)
  Theorem law_2 ts us : in_order t0 ts -> in_order t0 us -> reached t0 ts = reached t0 us ->
    Permutation (deliveries E [] t0 ts) (deliveries E [] t0 us).
  Proof.
    intros O P R. apply NoDup_Permutation.
    - eapply NoDup_map_inv, law_1_once, O.
    - eapply NoDup_map_inv, law_1_once, P.
    - intros [r s]. now rewrite !law_1, R.
  Qed.
End Deliveries.

(** ** Rows from now on: a query that is installed without the answers of the past (`--from now`)

    A branch then omits the rows that were in the answer just before its instant. *)
Section FromNow.
  Context {T : Type} `{Row T}.

  Definition entries (E : relation T) (s : time) : list T :=
    filter (fun r => negb (contains r (at_instant E (s - 1)))) (starts E s).

  (** The remaining events are exactly the true entries. *)
  Theorem from_now_rule E s r : lawful E ->
    In r (entries E s) <-> In r (at_instant E s) /\ ~ In r (at_instant E (s - 1)).
  Proof.
    intros L. unfold entries. rewrite filter_In, negb_true_iff, <- not_true_iff_false, contains_spec.
    split; intros [I N]; split; auto.
    - now apply (starts_sound E L).
    - now apply (entry_is_event E L).
  Qed.
End FromNow.
