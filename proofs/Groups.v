(** GROUP BY, and every other operator that computes each partition of its input by itself.

    The operator splits the input by [part] (the columns of GROUP BY or PARTITION BY) and applies [inside] to the rows
    of each partition.  [inside] may be any function that does not look at the order of the rows: an aggregate gives
    one row, a top-k keeps some rows (TopK.v), a window function adds a column to each row.  Its result has the
    partition's key beside it; a projection drops the key where SQL does not show it.

    A partition is *touched* at an instant if a row in it begins or ends then.  Only touched partitions are computed. *)

From Coq Require Import ZArith List Bool Lia Permutation.
From Weft Require Import Multisets Relation Predicates Operators Parameters Laws Deltas SetDeltas.
Import ListNotations.
Open Scope Z_scope.

(** The function does not look at the order of its rows. *)
Definition unordered {T U} (inside : list T -> list U) : Prop :=
  forall l m, Permutation l m -> Permutation (inside l) (inside m).

Section Partitions.
  Context {T K U : Type} `{Row T} `{Row K} `{Row U}.
  Context (part : T -> K) (inside : list T -> list U).
  Hypothesis any_order : unordered inside.
  Hypothesis none : inside [] = [].

  Definition group (k : K) (l : list T) : list T := filter (fun r => equals (part r) k) l.

  Definition partitioned (l : list T) : list (K * U) :=
    with_each (nodup same (map part l)) (fun k => inside (group k l)).

  Lemma copies_group r k l : copies r (group k l) = if equals (part r) k then copies r l else 0.
  Proof. exact (copies_filter r (fun x => equals (part x) k) l). Qed.

  Lemma group_of_no_row k l : ~ In k (map part l) -> group k l = [].
  Proof.
    intros N. unfold group. induction l as [| x l IH]; simpl in *; [reflexivity |].
    destruct (equals (part x) k) eqn:E; [apply (equals_spec (part x)) in E; destruct N; now left |]. apply IH. tauto.
  Qed.

  Lemma copies_partitioned k u l : copies (k, u) (partitioned l) = copies u (inside (group k l)).
  Proof.
    unfold partitioned. rewrite copies_with_each, copies_nodup.
    destruct (in_or_not k (map part l)) as [I | N]; [lia |]. rewrite group_of_no_row, none by assumption. reflexivity.
  Qed.

  (** A partition keeps its result while the multiplicities of its rows stay. *)
  Lemma partition_same k l m : (forall r, part r = k -> copies r l = copies r m) ->
    forall u, copies u (inside (group k l)) = copies u (inside (group k m)).
  Proof.
    intros S. apply permutation_by_copies, any_order, permutation_by_copies. intros r. rewrite !copies_group.
    destruct (equals (part r) k) eqn:E; [| reflexivity]. apply S. now apply equals_spec.
  Qed.

  (** *** starts and ends: the rows of each touched partition, at [s] and just before *)

  Definition touched_by_events (A : relation T) (s : time) : list K := nodup same (map part (starts A s ++ ends A s)).

  Definition grouped (A : relation T) : relation (K * U) := {|
    at_instant s := partitioned (at_instant A s);
    starts s := with_each (touched_by_events A s) (fun k => inside (group k (at_instant A s)));
    ends s := with_each (touched_by_events A s) (fun k => inside (group k (at_instant A (s - 1))))
  |}.

  Lemma change_touches A s k u : lawful A ->
    copies u (inside (group k (at_instant A s))) <> copies u (inside (group k (at_instant A (s - 1)))) ->
    In k (touched_by_events A s).
  Proof.
    intros L D. destruct (in_or_not k (touched_by_events A s)) as [I | N]; [assumption |]. destruct D.
    apply partition_same. intros r R. unfold touched_by_events in N. rewrite nodup_In, map_app, in_app_iff in N.
    destruct (Z.lt_trichotomy (copies r (at_instant A s)) (copies r (at_instant A (s - 1)))) as [C | [C | C]];
      [| assumption |]; destruct N; [right | left]; rewrite <- R; apply in_map;
      [apply (ends_complete A L) | apply (starts_complete A L)]; assumption.
  Qed.

  Theorem grouped_rule A : lawful A -> lawful (grouped A).
  Proof.
    intros L. split; intros s [k u]; simpl; rewrite ?with_each_spec, ?copies_partitioned.
    - intros [_ I]. apply copies_in. rewrite copies_partitioned. now apply copies_in.
    - intros R. pose proof (copies_nonnegative u (inside (group k (at_instant A (s - 1))))).
      split; [apply (change_touches A s k u L) | apply copies_in]; lia.
    - intros [_ I]. apply copies_in. rewrite copies_partitioned. now apply copies_in.
    - intros R. pose proof (copies_nonnegative u (inside (group k (at_instant A s)))).
      split; [apply (change_touches A s k u L) | apply copies_in]; lia.
  Qed.

  (** *** The exact delta: the new result of each touched partition replaces the old one *)

  Definition touched_by_delta (d : delta T) (s : time) : list K := nodup same (map part (map fst (d s))).

  Definition delta_grouped (d : delta T) (A : time -> list T) : delta (K * U) := fun s =>
    each 1 (with_each (touched_by_delta d s) (fun k => inside (group k (A s)))) ++
    each (-1) (with_each (touched_by_delta d s) (fun k => inside (group k (A (s - 1))))).

  Theorem grouped_delta t0 d A : exact t0 d A -> exact t0 (delta_grouped d A) (fun s => partitioned (A s)).
  Proof.
    intros X. apply exact_steps. split; intros s [k u] L; rewrite !copies_partitioned.
    - rewrite (nothing_before t0 d A s) by assumption. simpl. now rewrite none.
    - unfold delta_grouped. rewrite amount_events, !copies_with_each. unfold touched_by_delta. rewrite copies_nodup.
      destruct (in_or_not k (map part (map fst (d s)))) as [I | N]; [lia |].
      rewrite (partition_same k (A s) (A (s - 1))); [lia |]. intros r <-.
      apply (untouched_same t0 d A s); [assumption | assumption |]. intros I. apply N. now apply in_map.
  Qed.

  (** *** COUNT and SUM keep sums: the value at an instant is the state before the window plus the deltas since then *)
  Theorem group_running_sum t0 d A (g : T -> Z) k from n : exact t0 d A -> t0 <= from ->
    total g (group k (A (from + Z.of_nat n - 1))) =
    total g (group k (A (from - 1))) +
    total (fun u => weighted (fun r => if equals (part r) k then g r else 0) (d u)) (window from (from + Z.of_nat n)).
  Proof.
    intros X B. unfold group. rewrite !total_filter.
    apply (running_sum t0 d A (fun r => if equals (part r) k then g r else 0) from n X B).
  Qed.
End Partitions.

(** ** GROUP BY with aggregates: one row for each group that has a row *)
Section GroupBy.
  Context {T K V : Type} `{Row T} `{Row K} `{Row V}.
  Context (part : T -> K) (aggregate : list T -> V).
  Hypothesis any_order : forall l m, Permutation l m -> aggregate l = aggregate m.

  Definition one_row (l : list T) : list V := match l with [] => [] | _ => [aggregate l] end.

  Lemma one_row_unordered : unordered one_row.
  Proof.
    intros l m P. destruct l as [| x l], m as [| y m]; simpl.
    - constructor.
    - now apply Permutation_nil_cons in P.
    - apply Permutation_sym in P. now apply Permutation_nil_cons in P.
    - rewrite (any_order _ _ P). reflexivity.
  Qed.

  Definition group_by (A : relation T) : relation (K * V) := grouped part one_row A.

  (** What it means: a row (k, v) for each key k of a row, with the aggregate of the rows that have this key. *)
  Theorem group_by_means A s k v : In (k, v) (at_instant (group_by A) s) <->
    group part k (at_instant A s) <> [] /\ v = aggregate (group part k (at_instant A s)).
  Proof.
    simpl. rewrite copies_in, copies_partitioned, <- copies_in by reflexivity.
    destruct (group part k (at_instant A s)); simpl; split; intros I; try easy.
    - destruct I as [<- | []]. split; [discriminate | reflexivity].
    - left. symmetry. apply I.
  Qed.

  Theorem group_by_rule A : lawful A -> lawful (group_by A).
  Proof. apply grouped_rule; [apply one_row_unordered | reflexivity]. Qed.

  Theorem group_by_delta t0 d (A : relation T) : exact t0 d (at_instant A) ->
    exact t0 (delta_grouped part one_row d (at_instant A)) (at_instant (group_by A)).
  Proof. apply grouped_delta; [apply one_row_unordered | reflexivity]. Qed.

  (** ** An aggregate without GROUP BY has a row from [t0] on, also while its input is empty *)

  Definition touched (A : relation T) (s : time) : bool := negb (empty (starts A s ++ ends A s)).

  Definition global (t0 : time) (A : relation T) : relation V := {|
    at_instant s := if t0 <=? s then [aggregate (at_instant A s)] else [];
    starts s := if (t0 =? s) || (t0 <? s) && touched A s then [aggregate (at_instant A s)] else [];
    ends s := if (t0 <? s) && touched A s then [aggregate (at_instant A (s - 1))] else []
  |}.

  Lemma untouched_aggregate A s : lawful A -> touched A s = false ->
    aggregate (at_instant A s) = aggregate (at_instant A (s - 1)).
  Proof.
    intros L N. unfold touched in N. apply negb_false_iff, empty_spec, app_eq_nil in N as [S E].
    apply any_order, permutation_by_copies. intros r.
    destruct (Z.lt_trichotomy (copies r (at_instant A s)) (copies r (at_instant A (s - 1)))) as [C | [C | C]];
      [| assumption |].
    - apply (ends_complete A L) in C. now rewrite E in C.
    - apply (starts_complete A L) in C. now rewrite S in C.
  Qed.

  Theorem global_aggregate_rule t0 A : lawful A -> lawful (global t0 A).
  Proof.
    intros L. split; intros s v; simpl.
    - destruct (Z.eqb_spec t0 s), (Z.ltb_spec t0 s), (Z.leb_spec t0 s), (touched A s); easy || lia.
    - intros R. destruct (Z.leb_spec t0 s) as [B | B]; [| rewrite copies_nil in R].
      + assert (I : In v [aggregate (at_instant A s)])
          by (apply copies_in; eapply Z.le_lt_trans; [apply copies_nonnegative | exact R]).
        destruct (Z.eqb_spec t0 s), (Z.ltb_spec t0 s), (touched A s) eqn:E, (Z.leb_spec t0 (s - 1)); simpl; auto;
          try lia.
        rewrite (untouched_aggregate A s) in R by assumption. lia.
      + destruct (Z.leb_spec t0 (s - 1)); [lia |]. now rewrite copies_nil in R.
    - destruct (Z.ltb_spec t0 s), (Z.leb_spec t0 (s - 1)), (touched A s); simpl; easy || lia.
    - intros R. destruct (Z.leb_spec t0 (s - 1)) as [B | B].
      + assert (I : In v [aggregate (at_instant A (s - 1))])
          by (apply copies_in; eapply Z.le_lt_trans; [apply copies_nonnegative | exact R]).
        destruct (Z.ltb_spec t0 s), (touched A s) eqn:E, (Z.leb_spec t0 s); simpl; auto; try lia.
        rewrite (untouched_aggregate A s) in R by assumption. lia.
      + rewrite copies_nil in R.
        pose proof (copies_nonnegative v (if t0 <=? s then [aggregate (at_instant A s)] else [])).
        lia.
  Qed.

  Definition delta_global (t0 : time) (d : delta T) (A : time -> list T) : delta V := fun s =>
    if t0 =? s then [(aggregate (A s), 1)]
    else if empty (d s) then [] else [(aggregate (A s), 1); (aggregate (A (s - 1)), -1)].

  Theorem global_aggregate_delta t0 d (A : relation T) : exact t0 d (at_instant A) ->
    exact t0 (delta_global t0 d (at_instant A)) (at_instant (global t0 A)).
  Proof.
    intros X. apply exact_steps. split; intros s v L; simpl.
    - destruct (Z.leb_spec t0 s); [lia | reflexivity].
    - unfold delta_global, amount. destruct (Z.leb_spec t0 s) as [_ | C]; [| lia].
      destruct (Z.eqb_spec t0 s), (Z.leb_spec t0 (s - 1)); try lia.
      + simpl. rewrite copies_cons, !copies_nil. lia.
      + rewrite !copies_cons, copies_nil. destruct (empty (d s)) eqn:E; simpl; [| lia].
        apply empty_spec in E.
        replace (aggregate (at_instant A s)) with (aggregate (at_instant A (s - 1))); [lia |].
        apply any_order, permutation_by_copies. intros r. symmetry. apply (untouched_same t0 d); try assumption.
        now rewrite E.
  Qed.
End GroupBy.

(** ** Rows with subqueries (derivation/exact.py, with_states)

    A tick computes only the rows with a *touched* key: a key of a row that begins or ends in its window.  The relation
    may have touched keys of which no row begins or ends. *)
Section TouchedRows.
  Context {T K : Type} `{Row T}.
  Context (key : T -> K) (touched : time -> K -> bool).

  Definition rows_of_touched (s : time) (l : list T) : list T := filter (fun r => touched s (key r)) l.

  Definition delta_touched (E : relation T) : delta T := fun s =>
    each 1 (rows_of_touched s (at_instant E s)) ++ each (-1) (rows_of_touched s (at_instant E (s - 1))).

  Theorem touched_delta t0 (E : relation T) : lawful E ->
    (forall s, s < t0 -> at_instant E s = []) ->
    (forall s r, In r (starts E s ++ ends E s) -> touched s (key r) = true) ->
    exact t0 (delta_touched E) (at_instant E).
  Proof.
    intros L B C. apply exact_steps. split; intros s r P; [now rewrite B, copies_nil |].
    unfold delta_touched, rows_of_touched. rewrite amount_events, !copies_filter.
    destruct (touched s (key r)) eqn:U; [reflexivity |].
    assert (N : ~ In r (starts E s ++ ends E s)) by (intros I; apply C in I; congruence).
    rewrite in_app_iff in N.
    destruct (Z.lt_trichotomy (copies r (at_instant E s)) (copies r (at_instant E (s - 1)))) as [D | [D | D]].
    - destruct N. right. now apply (ends_complete E L).
    - lia.
    - destruct N. left. now apply (starts_complete E L).
  Qed.

  (** The rows with touched keys of σp A are σp of the rows of A with these keys.  Each row keeps its subqueries. *)
  Theorem subqueries_delta t0 (A : relation T) (p : T -> predicate) : lawful A -> (forall r, lawful_predicate (p r)) ->
    (forall s, s < t0 -> at_instant A s = []) ->
    (forall s r, In r (starts (select A p) s ++ ends (select A p) s) -> touched s (key r) = true) ->
    exact t0 (fun s =>
      each 1 (filter (fun r => holds (p r) s) (rows_of_touched s (at_instant A s))) ++
      each (-1) (filter (fun r => holds (p r) (s - 1)) (rows_of_touched s (at_instant A (s - 1)))))
      (at_instant (select A p)).
  Proof.
    intros L P B C.
    assert (X : exact t0 (delta_touched (select A p)) (at_instant (select A p))).
    { apply touched_delta; [now apply select_rule | | assumption]. intros s S. simpl. now rewrite B. }
    apply exact_steps in X as [Z S]. apply exact_steps. split; [assumption |]. intros s r Q. rewrite <- S by assumption.
    unfold delta_touched, rows_of_touched. rewrite !amount_events. simpl. rewrite !copies_filter.
    destruct (touched s (key r)), (holds (p r) s), (holds (p r) (s - 1)); lia.
  Qed.
End TouchedRows.
