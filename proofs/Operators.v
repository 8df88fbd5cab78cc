(** The operators of a query.  (derivation/replay/select.py, join.py, project.py, union.py, distinct.py) *)

From Coq Require Import ZArith List Bool Lia.
From Weft Require Import Multisets Relation Predicates.
Import ListNotations.
Open Scope Z_scope.

(** ** σp A: starts = σ at(p, s) starts(A) ∪ at(A, s) ⋈ starts(p) *)
Section Select.
  Context {T : Type} `{Row T}.

  Definition select (A : relation T) (p : T -> predicate) : relation T := {|
    at_instant s := filter (fun r => holds (p r) s) (at_instant A s);
    starts s := filter (fun r => holds (p r) s) (starts A s) ++
                filter (fun r => turns_true (p r) s) (at_instant A s);
    ends s := filter (fun r => holds (p r) (s - 1)) (ends A s) ++
              filter (fun r => turns_false (p r) s) (at_instant A (s - 1))
  |}.

  Theorem select_rule A p : lawful A -> (forall r, lawful_predicate (p r)) -> lawful (select A p).
  Proof.
    intros L P. split; intros s r; simpl; rewrite ?in_app_iff, ?filter_In, ?copies_filter.
    - intros [[I B] | [I B]]; split; auto using (starts_sound A L), (true_sound (p r) (P r)).
    - pose proof (copies_nonnegative r (at_instant A (s - 1))) as N.
      destruct (holds (p r) s) eqn:Now; [| destruct (holds (p r) (s - 1)); lia].
      destruct (holds (p r) (s - 1)) eqn:Before; intros R.
      + left. split; [apply (starts_complete A L) |]; auto.
      + right. split; [apply copies_in; lia | now apply (true_complete (p r) (P r))].
    - intros [[I B] | [I B]]; split; auto using (ends_sound A L), (false_sound (p r) (P r)).
    - pose proof (copies_nonnegative r (at_instant A s)) as N.
      destruct (holds (p r) (s - 1)) eqn:Before; [| destruct (holds (p r) s); lia].
      destruct (holds (p r) s) eqn:Now; intros R.
      + left. split; [apply (ends_complete A L) |]; auto.
      + right. split; [apply copies_in; lia | now apply (false_complete (p r) (P r))].
  Qed.
End Select.

(** ** A ⋈ B: starts = starts(A) ⋈ at(B, s) ∪ at(A, s) ⋈ starts(B) *)
Section Join.
  Context {T U : Type} `{Row T} `{Row U}.

  Definition join (A : relation T) (B : relation U) : relation (T * U) := {|
    at_instant s := list_prod (at_instant A s) (at_instant B s);
    starts s := list_prod (starts A s) (at_instant B s) ++ list_prod (at_instant A s) (starts B s);
    ends s := list_prod (ends A s) (at_instant B (s - 1)) ++ list_prod (at_instant A (s - 1)) (ends B s)
  |}.

  (** A product of multiplicities rises only where a factor rises and both are positive afterwards. *)
  Lemma product_rises a b c d : 0 <= a -> 0 <= b -> 0 <= c -> 0 <= d -> a * b < c * d ->
    0 < c /\ 0 < d /\ (a < c \/ b < d).
  Proof. nia. Qed.

  Theorem join_rule A B : lawful A -> lawful B -> lawful (join A B).
  Proof.
    intros LA LB. split; intros s [a b]; simpl; rewrite ?in_app_iff, ?in_prod_iff, ?copies_product.
    - intros [[I J] | [I J]]; split; auto using (starts_sound A LA), (starts_sound B LB).
    - intros R. apply product_rises in R; try apply copies_nonnegative. rewrite !(copies_in _ (at_instant _ s)).
      destruct R as [P [Q [R | R]]]; [left | right]; auto using (starts_complete A LA), (starts_complete B LB).
    - intros [[I J] | [I J]]; split; auto using (ends_sound A LA), (ends_sound B LB).
    - intros R. apply product_rises in R; try apply copies_nonnegative. rewrite !(copies_in _ (at_instant _ (s - 1))).
      destruct R as [P [Q [R | R]]]; [left | right]; auto using (ends_complete A LA), (ends_complete B LB).
  Qed.
End Join.

(** Python's Join takes any number of inputs: each event of one input meets the rows of all others.  A join of joins has
    the same events, here for three. *)
Theorem join_of_three {T U V} `{Row T} `{Row U} `{Row V} (A : relation T) (B : relation U) (C : relation V) s a b c :
  In (a, (b, c)) (starts (join A (join B C)) s) <->
  In a (starts A s) /\ In b (at_instant B s) /\ In c (at_instant C s) \/
  In a (at_instant A s) /\ In b (starts B s) /\ In c (at_instant C s) \/
  In a (at_instant A s) /\ In b (at_instant B s) /\ In c (starts C s).
Proof. simpl. rewrite !in_app_iff, !in_prod_iff, !in_app_iff, !in_prod_iff. tauto. Qed.

(** ** π A: starts = π starts(A) *)
Section Project.
  Context {T U : Type} `{Row T} `{Row U}.

  Definition project (f : T -> U) (A : relation T) : relation U := {|
    at_instant s := map f (at_instant A s);
    starts s := map f (starts A s);
    ends s := map f (ends A s)
  |}.

  Lemma map_rises (f : T -> U) v l m : copies v (map f l) < copies v (map f m) ->
    exists r, f r = v /\ copies r l < copies r m.
  Proof.
    rewrite !copies_map. intros R. apply total_rises in R as [r [P R]].
    - exists r. split; [| assumption]. destruct (same (f r) v); [assumption |].
      rewrite one_if_other in P by assumption. lia.
    - intros r. apply one_if_nonnegative.
  Qed.

  Theorem project_rule f A : lawful A -> lawful (project f A).
  Proof.
    intros L. split; intros s v; simpl; rewrite ?in_map_iff.
    - intros [r [<- I]]. exists r. auto using (starts_sound A L).
    - intros R. apply map_rises in R as [r [E R]]. exists r. auto using (starts_complete A L).
    - intros [r [<- I]]. exists r. auto using (ends_sound A L).
    - intros R. apply map_rises in R as [r [E R]]. exists r. auto using (ends_complete A L).
  Qed.
End Project.

(** ** The elements of an array: each row of A with each of its elements.  The elements supply no event. *)
Section Unnest.
  Context {T U : Type} `{Row T} `{Row U}.

  Definition unnest (f : T -> list U) (A : relation T) : relation U := {|
    at_instant s := flat_map f (at_instant A s);
    starts s := flat_map f (starts A s);
    ends s := flat_map f (ends A s)
  |}.

  Lemma flat_map_rises (f : T -> list U) v l m : copies v (flat_map f l) < copies v (flat_map f m) ->
    exists r, copies r l < copies r m /\ In v (f r).
  Proof.
    rewrite !copies_flat_map. intros R. apply total_rises in R as [r [P R]].
    - exists r. split; [assumption | now apply copies_in].
    - intros r. apply copies_nonnegative.
  Qed.

  Theorem unnest_rule f A : lawful A -> lawful (unnest f A).
  Proof.
    intros L. split; intros s v; simpl; rewrite ?in_flat_map.
    - intros [r [I J]]. exists r. auto using (starts_sound A L).
    - intros R. apply flat_map_rises in R as [r [R J]]. exists r. auto using (starts_complete A L).
    - intros [r [I J]]. exists r. auto using (ends_sound A L).
    - intros R. apply flat_map_rises in R as [r [R J]]. exists r. auto using (ends_complete A L).
  Qed.
End Unnest.

(** ** A ∪ B (UNION ALL) and δ A (DISTINCT) *)
Section UnionDistinct.
  Context {T : Type} `{Row T}.

  Definition union (A B : relation T) : relation T := {|
    at_instant s := at_instant A s ++ at_instant B s;
    starts s := starts A s ++ starts B s;
    ends s := ends A s ++ ends B s
  |}.

  Theorem union_rule A B : lawful A -> lawful B -> lawful (union A B).
  Proof.
    intros LA LB. split; intros s r; simpl; rewrite ?in_app_iff, ?copies_app.
    - intros [I | I]; auto using (starts_sound A LA), (starts_sound B LB).
    - intros R. destruct (Z_lt_le_dec (copies r (at_instant A (s - 1))) (copies r (at_instant A s))).
      + left. now apply (starts_complete A LA).
      + right. apply (starts_complete B LB). lia.
    - intros [I | I]; auto using (ends_sound A LA), (ends_sound B LB).
    - intros R. destruct (Z_lt_le_dec (copies r (at_instant A s)) (copies r (at_instant A (s - 1)))).
      + left. now apply (ends_complete A LA).
      + right. apply (ends_complete B LB). lia.
  Qed.

  Definition nothing : relation T := {| at_instant _ := []; starts _ := []; ends _ := [] |}.

  (** Python's Union takes any number of inputs. *)
  Definition unions (inputs : list (relation T)) : relation T := fold_right union nothing inputs.

  Theorem unions_rule inputs : Forall lawful inputs -> lawful (unions inputs).
  Proof. induction 1; simpl; [split; simpl; easy || lia | now apply union_rule]. Qed.

  Definition distinct (A : relation T) : relation T := {|
    at_instant s := nodup same (at_instant A s);
    starts := starts A;
    ends := ends A
  |}.

  Theorem distinct_rule A : lawful A -> lawful (distinct A).
  Proof.
    intros L. split; intros s r; simpl; rewrite ?nodup_In, ?copies_nodup;
      auto using (starts_sound A L), (ends_sound A L).
    - destruct (in_or_not r (at_instant A (s - 1))), (in_or_not r (at_instant A s)); try lia.
      intros _. now apply (entry_is_event A L).
    - destruct (in_or_not r (at_instant A s)), (in_or_not r (at_instant A (s - 1))); try lia.
      intros _. now apply (exit_is_event A L).
  Qed.
End UnionDistinct.

(** ** What SQL writes and lowering reduces to these operators *)
Section SetOperations.
  Context {T : Type} `{Row T}.

  Definition equals (x y : T) : bool := if same x y then true else false.

  Lemma equals_spec x y : equals x y = true <-> x = y.
  Proof. unfold equals; destruct (same x y); split; congruence. Qed.

  (** EXCEPT and INTERSECT compare rows null-safe, which [same] does. *)
  Definition difference (A B : relation T) : relation T :=
    distinct (select A (fun a => not_exists (select B (fun b => plain (equals b a))))).

  Definition intersection (A B : relation T) : relation T :=
    distinct (select A (fun a => exists_ (select B (fun b => plain (equals b a))))).

  Lemma with_equal a l : filter (fun b => equals b a) l = [] <-> ~ In a l.
  Proof.
    split.
    - intros E I.
      assert (X : In a (filter (fun b => equals b a) l)) by (apply filter_In; split; [| apply equals_spec]; auto).
      now rewrite E in X.
    - intros N. induction l as [| x l IH]; simpl in *; [reflexivity |].
      destruct (equals x a) eqn:E; [apply equals_spec in E |]; tauto.
  Qed.

  Theorem difference_rule A B : lawful A -> lawful B -> lawful (difference A B).
  Proof.
    intros LA LB. apply distinct_rule, select_rule; [assumption |]. intros a.
    apply not_exists_rule, select_rule; [assumption |]. intros b. apply plain_rule.
  Qed.

  Theorem difference_means A B s r :
    In r (at_instant (difference A B) s) <-> In r (at_instant A s) /\ ~ In r (at_instant B s).
  Proof. simpl. now rewrite nodup_In, filter_In, empty_spec, with_equal. Qed.

  Theorem intersection_rule A B : lawful A -> lawful B -> lawful (intersection A B).
  Proof.
    intros LA LB. apply distinct_rule, select_rule; [assumption |]. intros a.
    apply exists_rule, select_rule; [assumption |]. intros b. apply plain_rule.
  Qed.

  Theorem intersection_means A B s r :
    In r (at_instant (intersection A B) s) <-> In r (at_instant A s) /\ In r (at_instant B s).
  Proof.
    simpl. rewrite nodup_In, filter_In, negb_true_iff, <- not_true_iff_false, empty_spec, with_equal.
    destruct (in_or_not r (at_instant B s)); tauto.
  Qed.
End SetOperations.
