(** Top-k by counting the rows before.

    ORDER BY … LIMIT k [OFFSET n] and ROW_NUMBER use a total order of all columns: [k] rows of the sorted rows, after the
    first [n].  Of m equal copies, min(m, max(0, k − rows before)) are among the first k.

    RANK and DENSE_RANK keep ties: their order compares keys.  RANK ≤ k iff fewer than k rows have a smaller key;
    DENSE_RANK ≤ k iff fewer than k smaller keys occur. *)

From Coq Require Import ZArith List Bool Lia Permutation Sorted.
From Weft Require Import Multisets Relation Operators Deltas Groups.
Import ListNotations.
Open Scope Z_scope.

(** A total order, as a function. *)
Class Order (K : Type) := {
  le : K -> K -> bool;
  le_total : forall x y, le x y = true \/ le y x = true;
  le_antisymmetric : forall x y, le x y = true -> le y x = true -> x = y;
  le_transitive : forall x y z, le x y = true -> le y z = true -> le x z = true
}.

Definition lt {K} `{Row K} `{Order K} (x y : K) : bool := le x y && negb (equals x y).

Section Orders.
  Context {K : Type} `{Row K} `{Order K}.

  Lemma le_reflexive x : le x x = true.
  Proof. now destruct (le_total x x). Qed.

  Lemma lt_spec x y : lt x y = true <-> le x y = true /\ x <> y.
  Proof. unfold lt. rewrite andb_true_iff, negb_true_iff, <- not_true_iff_false, equals_spec. reflexivity. Qed.

  Lemma lt_irreflexive x : lt x x = false.
  Proof. apply not_true_iff_false. rewrite lt_spec. tauto. Qed.

  Lemma not_before x y : le x y = true -> lt y x = false.
  Proof. intros L. apply not_true_iff_false. rewrite lt_spec. intros [M N]. apply N. now apply le_antisymmetric. Qed.
End Orders.

(** ** LIMIT and ROW_NUMBER *)
Section Limit.
  Context {T : Type} `{Row T} `{Order T}.

  Fixpoint insert (x : T) (l : list T) : list T := match l with
    | [] => [x]
    | y :: rest => if le x y then x :: l else y :: insert x rest
    end.

  Definition sort (l : list T) : list T := fold_right insert [] l.

  Definition sorted (l : list T) : Prop := StronglySorted (fun x y => le x y = true) l.

  Lemma insert_permutation x l : Permutation (x :: l) (insert x l).
  Proof.
    induction l as [| y l IH]; simpl; [apply Permutation_refl |]. destruct (le x y); [apply Permutation_refl |].
    eapply perm_trans; [apply perm_swap |]. now apply perm_skip.
  Qed.

  Lemma sort_permutation l : Permutation l (sort l).
  Proof.
    induction l as [| x l IH]; simpl; [constructor |]. eapply perm_trans; [apply perm_skip, IH | apply insert_permutation].
  Qed.

  Lemma insert_sorted x l : sorted l -> sorted (insert x l).
  Proof.
    induction 1 as [| y l S IH F]; simpl; [repeat constructor |]. destruct (le x y) eqn:L.
    - constructor; [constructor; assumption |]. constructor; [assumption |].
      apply Forall_forall. intros z I. eapply le_transitive; [exact L |]. now apply (proj1 (Forall_forall _ _) F).
    - constructor; [assumption |]. apply Forall_forall. intros z I.
      apply (Permutation_in _ (Permutation_sym (insert_permutation x l))) in I as [<- | I].
      + destruct (le_total x y); congruence.
      + now apply (proj1 (Forall_forall _ _) F).
  Qed.

  Lemma sort_sorted l : sorted (sort l).
  Proof. induction l; simpl; [constructor | now apply insert_sorted]. Qed.

  (** The number of rows that come before [r]. *)
  Definition before (r : T) (l : list T) : Z := total (fun x => if lt x r then 1 else 0) l.

  Lemma before_nonnegative r l : 0 <= before r l.
  Proof. apply total_nonnegative. intros x. destruct (lt x r); lia. Qed.

  Lemma none_before r l : Forall (fun y => le r y = true) l -> before r l = 0.
  Proof.
    intros F. apply total_zero. intros x I. rewrite not_before; [reflexivity |]. now apply (proj1 (Forall_forall _ _) F).
  Qed.

  Lemma first_rows r k : forall m, sorted m ->
    copies r (firstn k m) = Z.min (copies r m) (Z.max 0 (Z.of_nat k - before r m)).
  Proof.
    induction k as [| k IH]; intros m S.
    - simpl. rewrite copies_nil. pose proof (copies_nonnegative r m). pose proof (before_nonnegative r m). lia.
    - destruct S as [| x m S F]; [reflexivity |]. simpl firstn. rewrite !copies_cons, IH by assumption.
      change (before r (x :: m)) with ((if lt x r then 1 else 0) + before r m).
      pose proof (copies_nonnegative r m). pose proof (before_nonnegative r m).
      destruct (same x r) as [-> | N].
      + rewrite one_if_same, lt_irreflexive, none_before by assumption. lia.
      + rewrite one_if_other by assumption. destruct (lt x r) eqn:L; [lia |].
        enough (copies r m = 0) by lia. apply copies_not_in. intros I.
        apply (proj1 (Forall_forall _ _) F) in I. apply not_true_iff_false in L. apply L, lt_spec. auto.
  Qed.

  Lemma before_permutation r l m : Permutation l m -> before r l = before r m.
  Proof. apply total_permutation. Qed.

  Definition limit (k : nat) (l : list T) : list T := firstn k (sort l).

  (** Of m equal copies, min(m, max(0, k − rows before)) stay. *)
  Theorem limit_rule k r l : copies r (limit k l) = Z.min (copies r l) (Z.max 0 (Z.of_nat k - before r l)).
  Proof.
    unfold limit. rewrite first_rows by apply sort_sorted.
    rewrite <- (before_permutation r l) by apply sort_permutation.
    now rewrite <- (proj2 (permutation_by_copies l (sort l)) (sort_permutation l) r).
  Qed.

  Definition limit_offset (k n : nat) (l : list T) : list T := firstn k (skipn n (sort l)).

  (** With OFFSET n, those of the first n + k rows that are not among the first n. *)
  Theorem limit_offset_rule k n r l :
    copies r (limit_offset k n l) = copies r (limit (n + k) l) - copies r (limit n l).
  Proof.
    unfold limit, limit_offset. generalize (sort l) as m. induction n as [| n IH]; intros m.
    - simpl. rewrite copies_nil. lia.
    - destruct m as [| x m]; simpl; [now rewrite firstn_nil |]. rewrite !copies_cons, IH. lia.
  Qed.

  (** ROW_NUMBER: the position in the sorted rows, from 1. *)
  Definition row_numbers (l : list T) : list (T * Z) := combine (sort l) (map Z.of_nat (seq 1 (length l))).

  (** ROW_NUMBER ≤ k is LIMIT k. *)
  Theorem row_number_rule k l :
    map fst (filter (fun x => snd x <=? Z.of_nat k) (row_numbers l)) = limit k l.
  Proof.
    unfold row_numbers, limit. rewrite (Permutation_length (sort_permutation l)). generalize (sort l) as m. intros m.
    assert (G : forall m i, map fst (filter (fun x => snd x <=? Z.of_nat (k + i))
      (combine m (map Z.of_nat (seq (S i) (length m))))) = firstn k m).
    { clear l m. revert k. induction k as [| k IH]; intros m i.
      - assert (E : forall m j, (i < j)%nat ->
          filter (fun x : T * Z => snd x <=? Z.of_nat i) (combine m (map Z.of_nat (seq j (length m)))) = []).
        { clear m. induction m as [| x m IHm]; intros j J; simpl; [reflexivity |].
          destruct (Z.leb_spec (Z.of_nat j) (Z.of_nat i)); [lia |]. apply IHm. lia. }
        simpl plus. now rewrite E by lia.
      - destruct m as [| x m]; [reflexivity |]. simpl length. simpl seq. simpl map. simpl combine. simpl filter.
        destruct (Z.leb_spec (Z.of_nat (S i)) (Z.of_nat (S k + i))); [| lia]. simpl. f_equal.
        specialize (IH m (S i)). replace (k + S i)%nat with (S (k + i)) in IH by lia. exact IH. }
    specialize (G m 0%nat). now rewrite Nat.add_0_r in G.
  Qed.

  Lemma limit_unordered k : unordered (limit k).
  Proof.
    intros l m P. apply permutation_by_copies. intros r. rewrite !limit_rule.
    rewrite (before_permutation r l m P). now rewrite (proj2 (permutation_by_copies l m) P r).
  Qed.

  Lemma limit_offset_unordered k n : unordered (limit_offset k n).
  Proof.
    intros l m P. apply permutation_by_copies. intros r. rewrite !limit_offset_rule.
    now rewrite !(proj2 (permutation_by_copies _ _) (limit_unordered _ l m P) r).
  Qed.
End Limit.

(** ** RANK and DENSE_RANK *)
Section Rank.
  Context {T K : Type} `{Row T} `{Row K} `{Order K}.
  Context (key : T -> K).

  (** The number of rows with a smaller key, and of smaller keys. *)
  Definition rows_before (r : T) (l : list T) : Z := total (fun x => if lt (key x) (key r) then 1 else 0) l.
  Definition keys_before (r : T) (l : list T) : Z := before (key r) (nodup same (map key l)).

  (** As an engine computes them, in one pass over the rows in the order of their keys.  A row with the key of the row
      before has its rank.  Otherwise RANK is the position, and DENSE_RANK the next number. *)
  Fixpoint ranks (position rank : Z) (last : option K) (l : list T) : list (T * Z) := match l with
    | [] => []
    | x :: rest =>
        let now := if same last (Some (key x)) then rank else position in
        (x, now) :: ranks (position + 1) now (Some (key x)) rest
    end.

  Fixpoint dense_ranks (rank : Z) (last : option K) (l : list T) : list (T * Z) := match l with
    | [] => []
    | x :: rest =>
        let now := if same last (Some (key x)) then rank else rank + 1 in
        (x, now) :: dense_ranks now (Some (key x)) rest
    end.

  Definition by_key (l : list T) : Prop := StronglySorted (fun x y => le (key x) (key y) = true) l.

  Lemma rows_before_app r l m : rows_before r (l ++ m) = rows_before r l + rows_before r m.
  Proof. apply total_app. Qed.

  Lemma none_smaller x l : Forall (fun y => le (key x) (key y) = true) l -> rows_before x l = 0.
  Proof.
    intros F. apply total_zero. intros y I. rewrite not_before; [reflexivity |]. now apply (proj1 (Forall_forall _ _) F).
  Qed.

  Lemma all_smaller x l : Forall (fun y => lt (key y) (key x) = true) l -> rows_before x l = Z.of_nat (length l).
  Proof.
    unfold rows_before. induction 1 as [| y l L F IH]; [reflexivity |]. cbn [total fold_right length].
    change (fold_right _ 0 l) with (rows_before x l) in *. fold (rows_before x l). rewrite L. unfold rows_before. rewrite IH. lia.
  Qed.
End Rank.
