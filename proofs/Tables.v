(** The relations that time itself changes: tables and constant rows.  (derivation/replay/scan.py, values.py) *)

From Coq Require Import ZArith List Bool Lia.
From Weft Require Import Multisets Relation.
Import ListNotations.
Open Scope Z_scope.

(** A row of a table with its period [start, end).  An end that is [None] is open: "until changed". *)
Record life (T : Type) : Type := Life { value : T; start : time; end_ : option time }.

Arguments Life {T}.
Arguments value {T}.
Arguments start {T}.
Arguments end_ {T}.

Section Scan.
  Context {T : Type} `{Row T}.
  Implicit Types (x : life T) (stored : list (life T)).

  Definition alive (s : time) x : bool :=
    (start x <=? s) && match end_ x with None => true | Some e => s <? e end.

  Definition starts_at (s : time) x : bool := start x =? s.

  Definition ends_at (s : time) x : bool := match end_ x with None => false | Some e => e =? s end.

  (** A table whose rows can end: a tracked table. *)
  Definition scan stored : relation T := {|
    at_instant s := map value (filter (alive s) stored);
    starts s := map value (filter (starts_at s) stored);
    ends s := map value (filter (ends_at s) stored)
  |}.

  (** The precondition on stored rows: no period is empty.  Versions that share one instant collapse to the last. *)
  Definition nonempty x : Prop := match end_ x with None => True | Some e => start x < e end.

  Lemma alive_spec s x : alive s x = true <-> start x <= s /\ match end_ x with None => True | Some e => s < e end.
  Proof. unfold alive. destruct (end_ x); rewrite andb_true_iff, Z.leb_le, ?Z.ltb_lt; intuition. Qed.

  (** Where the multiplicity of [r] rises from [p] to [q], a row with this value passes [q] and not [p]. *)
  Lemma rises_in_filter (p q : life T -> bool) stored r :
    copies r (map value (filter p stored)) < copies r (map value (filter q stored)) ->
    exists x, In x stored /\ value x = r /\ p x = false /\ q x = true.
  Proof.
    rewrite !copies_map, !total_filter. intros L.
    set (after := fun x => if q x then one_if (value x) r else 0) in L.
    set (before := fun x => if p x then one_if (value x) r else 0) in L.
    assert (P : 0 < total (fun x => after x - before x) stored) by (rewrite total_sub; lia).
    apply total_positive in P as [x [I P]]. exists x.
    subst after before. cbv beta in P. pose proof (one_if_nonnegative (value x) r).
    destruct (same (value x) r) as [<- | N]; [| rewrite one_if_other in P by assumption];
      destruct (q x), (p x); auto; lia.
  Qed.

  Theorem scan_rule stored : (forall x, In x stored -> nonempty x) -> lawful (scan stored).
  Proof.
    intros N. split; intros s r; simpl.
    - rewrite !in_map_iff. intros [x [V I]]. apply filter_In in I as [I S]. exists x.
      split; [assumption |]. apply filter_In. split; [assumption |]. apply alive_spec.
      specialize (N x I). unfold nonempty, starts_at in *. destruct (end_ x); lia.
    - intros R. apply rises_in_filter in R as [x [I [V [A B]]]]. apply in_map_iff. exists x.
      split; [assumption |]. apply filter_In. split; [assumption |]. unfold starts_at.
      apply not_true_iff_false in A. rewrite alive_spec in A, B. destruct (end_ x); lia.
    - rewrite !in_map_iff. intros [x [V I]]. apply filter_In in I as [I S]. exists x.
      split; [assumption |]. apply filter_In. split; [assumption |]. apply alive_spec.
      specialize (N x I). unfold nonempty, ends_at in *. destruct (end_ x); [lia | easy].
    - intros R. apply rises_in_filter in R as [x [I [V [A B]]]]. apply in_map_iff. exists x.
      split; [assumption |]. apply filter_In. split; [assumption |]. unfold ends_at.
      apply not_true_iff_false in A. rewrite alive_spec in A, B. destruct (end_ x); lia.
  Qed.
End Scan.

(** ** Append-only tables: nothing ever ends *)
Section AppendOnly.
  Context {T : Type} `{Row T}.

  Definition kept (stored : list (T * time)) : list (life T) := map (fun x => Life (fst x) (snd x) None) stored.

  (** The rule without the column of ends: ends(T) has no event. *)
  Definition append_only (stored : list (T * time)) : relation T := {|
    at_instant s := map fst (filter (fun x => snd x <=? s) stored);
    starts s := map fst (filter (fun x => snd x =? s) stored);
    ends _ := []
  |}.

  Lemma values_of_kept (p : life T -> bool) (q : T * time -> bool) stored :
    (forall x, p (Life (fst x) (snd x) None) = q x) ->
    map value (filter p (kept stored)) = map fst (filter q stored).
  Proof.
    intros E. induction stored as [| x l IH]; simpl; [reflexivity |]. rewrite E. destruct (q x); simpl; congruence.
  Qed.

  Lemma append_only_is_scan stored : equivalent (scan (kept stored)) (append_only stored).
  Proof.
    split; [| split]; intros s r; simpl.
    - rewrite (values_of_kept _ (fun x => snd x <=? s)); [reflexivity |].
      intros x. unfold alive; simpl. apply andb_true_r.
    - now rewrite (values_of_kept _ (fun x => snd x =? s)).
    - rewrite (values_of_kept _ (fun _ => false)) by reflexivity. now induction stored.
  Qed.

  Theorem scan_append_only_rule stored : lawful (append_only stored).
  Proof.
    apply (equivalent_lawful (scan (kept stored))); [apply append_only_is_scan |]. apply scan_rule.
    intros x I. apply in_map_iff in I as [y [<- _]]. exact I.
  Qed.
End AppendOnly.

(** ** Constant rows: they exist for ever from [t0], the beginning of time *)
Section Values.
  Context {T : Type} `{Row T}.

  (** Python writes at(VALUES, s) without a condition, because every instant of a window is [t0] or later, and
      at(VALUES, s⁻) with the condition [t0 < s].  Both are this function, at [s] and at [s - 1]. *)
  Definition values (t0 : time) (rows : list T) : relation T := {|
    at_instant s := if t0 <=? s then rows else [];
    starts s := if t0 =? s then rows else [];
    ends _ := []
  |}.

  Theorem values_rule t0 rows : lawful (values t0 rows).
  Proof.
    split; intros s r; simpl.
    - destruct (Z.eqb_spec t0 s), (Z.leb_spec t0 s); easy || lia.
    - rewrite copies_in. destruct (Z.eqb_spec t0 s), (Z.leb_spec t0 s), (Z.leb_spec t0 (s - 1)); rewrite ?copies_nil;
        lia.
    - easy.
    - destruct (Z.leb_spec t0 s), (Z.leb_spec t0 (s - 1)); rewrite ?copies_nil; pose proof (copies_nonnegative r rows);
        lia.
  Qed.

  (** A scan of the full history (FOR SYSTEM_TIME) has the same rows at every instant: it is [values] over all of
      them. *)
  Theorem scan_whole_rule t0 (stored : list (life T)) : lawful (values t0 (map value stored)).
  Proof. apply values_rule. Qed.
End Values.

(** The join of no inputs has one row, at every instant, and no events. *)
Definition unit_relation : relation unit := {| at_instant _ := [tt]; starts _ := []; ends _ := [] |}.

Theorem join_of_nothing_rule : lawful unit_relation.
Proof. split; intros s []; simpl; easy || lia. Qed.
