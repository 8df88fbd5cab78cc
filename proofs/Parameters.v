(** Queries of one shape share a plan.  (derivation/lift.py)

    [lift] replaces the constants of a query by parameters.  The plan of all such queries is the query as a function of
    its parameters, and runs once, joined with the table of the parameters. *)

From Coq Require Import ZArith List Bool Lia.
From Weft Require Import Multisets Relation.
Import ListNotations.
Open Scope Z_scope.

Section Shared.
  Context {P T : Type} `{Row P} `{Row T}.

  Definition with_each (parameters : list P) (rows : P -> list T) : list (P * T) :=
    flat_map (fun p => map (pair p) (rows p)) parameters.

  Definition shared (parameters : list P) (plan : P -> relation T) : relation (P * T) := {|
    at_instant s := with_each parameters (fun p => at_instant (plan p) s);
    starts s := with_each parameters (fun p => starts (plan p) s);
    ends s := with_each parameters (fun p => ends (plan p) s)
  |}.

  Lemma with_each_spec parameters rows p r :
    In (p, r) (with_each parameters rows) <-> In p parameters /\ In r (rows p).
  Proof.
    unfold with_each. rewrite in_flat_map. split.
    - intros [q [Q I]]. apply in_map_iff in I as [x [E I]]. injection E as <- <-. auto.
    - intros [Q I]. exists p. split; [assumption |]. now apply in_map.
  Qed.

  Lemma copies_with_each parameters rows p r :
    copies (p, r) (with_each parameters rows) = copies p parameters * copies r (rows p).
  Proof.
    unfold with_each. rewrite copies_flat_map. unfold copies at 2. rewrite Z.mul_comm, <- total_scale.
    apply total_ext. intros q _. rewrite copies_map. destruct (same q p) as [-> | N].
    - rewrite one_if_same, Z.mul_1_r. apply total_ext. intros x _. rewrite one_if_pair, one_if_same. lia.
    - rewrite one_if_other by assumption. rewrite Z.mul_0_r. apply total_zero. intros x _.
      rewrite one_if_pair, one_if_other by assumption. lia.
  Qed.

  Lemma scaled_rises n a b : 0 <= n -> n * a < n * b -> 0 < n /\ a < b.
  Proof.
    intros N R. destruct (Z.eq_dec n 0) as [-> | D]; [lia |]. split; [lia |].
    apply (Z.mul_lt_mono_pos_l n); [lia | assumption].
  Qed.

  (** The shared plan has the rows and the events of each query, marked with the parameters of that query. *)
  Theorem lift_rule parameters plan p : In p parameters -> forall s r,
    (In (p, r) (at_instant (shared parameters plan) s) <-> In r (at_instant (plan p) s)) /\
    (In (p, r) (starts (shared parameters plan) s) <-> In r (starts (plan p) s)) /\
    (In (p, r) (ends (shared parameters plan) s) <-> In r (ends (plan p) s)).
  Proof. intros I s r. simpl. rewrite !with_each_spec. tauto. Qed.

  Theorem shared_plan_lawful parameters plan : (forall p, lawful (plan p)) -> lawful (shared parameters plan).
  Proof.
    intros L. split; intros s [p r]; simpl; rewrite ?with_each_spec, ?copies_with_each.
    - intros [I S]. split; [assumption | now apply (starts_sound _ (L p))].
    - intros R. apply scaled_rises in R as [Q R]; [| apply copies_nonnegative].
      split; [now apply copies_in | now apply (starts_complete _ (L p))].
    - intros [I S]. split; [assumption | now apply (ends_sound _ (L p))].
    - intros R. apply scaled_rises in R as [Q R]; [| apply copies_nonnegative].
      split; [now apply copies_in | now apply (ends_complete _ (L p))].
  Qed.
End Shared.
