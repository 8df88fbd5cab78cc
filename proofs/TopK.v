(** Top-k by counting the rows before.

    ORDER BY … LIMIT k [OFFSET n] and ROW_NUMBER use a total order of all columns: [k] rows of the sorted rows, after
    the first [n].  Of m equal copies, min(m, max(0, k − rows before)) are among the first k.

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
    induction l as [| x l IH]; simpl; [constructor |].
    eapply perm_trans; [apply perm_skip, IH | apply insert_permutation].
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
    intros F. apply total_zero. intros x I. rewrite not_before; [reflexivity |].
    now apply (proj1 (Forall_forall _ _) F).
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
    assert (G : forall (m : list T) (i : nat), map fst (filter (fun x : T * Z => snd x <=? Z.of_nat (k + i))
      (combine m (map Z.of_nat (seq (S i) (length m))))) = firstn k m).
    { clear l m. revert k. induction k as [| k IH]; intros m i.
      - assert (E : forall m j, (i < j)%nat ->
          filter (fun x : T * Z => snd x <=? Z.of_nat i) (combine m (map Z.of_nat (seq j (length m)))) = []).
        { clear m. induction m as [| x m IHm]; intros j J; simpl; [reflexivity |].
          destruct (Z.leb_spec (Z.of_nat j) (Z.of_nat i)); [lia |]. apply IHm. lia. }
        simpl plus. now rewrite E by lia.
      - destruct m as [| x m]; [reflexivity |]. cbn [length seq map combine filter snd].
        destruct (Z.leb_spec (Z.of_nat (S i)) (Z.of_nat (S k + i))); [| lia]. cbn [map fst firstn]. f_equal.
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

  (** What is known of the rows [done] when their last key is [last]. *)
  Definition up_to (last : option K) (done : list T) : Prop := match last with
    | None => done = []
    | Some k => (exists y, In y done /\ key y = k) /\ forall y, In y done -> le (key y) k = true
    end.

  Lemma sorted_split done x rest : by_key (done ++ x :: rest) ->
    (forall y, In y done -> le (key y) (key x) = true) /\ (forall y, In y rest -> le (key x) (key y) = true).
  Proof.
    induction done as [| z done IH]; simpl; intros S; inversion S as [| a l S' F]; subst.
    - split; [easy |]. now apply Forall_forall.
    - destruct (IH S') as [D R]. split; [| assumption]. intros y [-> | I]; [| auto].
      apply (proj1 (Forall_forall _ _) F). apply in_or_app. right. now left.
  Qed.

  Lemma up_to_next done x rest : by_key (done ++ x :: rest) -> up_to (Some (key x)) (done ++ [x]).
  Proof.
    intros [D _]%sorted_split. split; [exists x; split; [apply in_or_app; right; now left | reflexivity] |].
    intros y I. apply in_app_or in I as [I | [-> | []]]; [auto | apply le_reflexive].
  Qed.

  (** If the key changes at [x], all rows before have smaller keys. *)
  Lemma new_key last done x rest : by_key (done ++ x :: rest) -> up_to last done -> last <> Some (key x) ->
    forall y, In y done -> lt (key y) (key x) = true.
  Proof.
    intros S%sorted_split U N y I. destruct S as [D _]. destruct last as [k |]; simpl in U; [| now subst].
    destruct U as [[z [J Z]] M]. apply lt_spec. split; [auto |]. intros E. apply N. f_equal.
    apply le_antisymmetric; [rewrite <- Z; auto |]. rewrite <- E. auto.
  Qed.

  Lemma smaller_rows done x rest : by_key (done ++ x :: rest) ->
    (forall y, In y done -> lt (key y) (key x) = true) -> rows_before x (done ++ x :: rest) = Z.of_nat (length done).
  Proof.
    intros [_ R]%sorted_split L. unfold rows_before. rewrite total_app.
    rewrite (total_zero _ (x :: rest)).
    - induction done as [| y done IH]; [reflexivity |]. cbn [total fold_right length].
      change (fold_right _ 0 done) with (total (fun x0 => if lt (key x0) (key x) then 1 else 0) done).
      rewrite L by now left. specialize (IH (fun z I => L z (or_intror I))). lia.
    - intros y [<- | I]; [now rewrite lt_irreflexive |]. rewrite not_before; auto.
  Qed.

  Lemma ranks_spec l : forall done rank last, by_key (done ++ l) -> up_to last done ->
    (forall y, In y done -> last = Some (key y) -> rank = 1 + rows_before y (done ++ l)) ->
    forall x n, In (x, n) (ranks (1 + Z.of_nat (length done)) rank last l) -> n = 1 + rows_before x (done ++ l).
  Proof.
    induction l as [| z rest IH]; [easy |]. intros done rank last S U R x n.
    set (now := if same last (Some (key z)) then rank else 1 + Z.of_nat (length done)).
    assert (Now : now = 1 + rows_before z (done ++ z :: rest)).
    { unfold now. destruct (same last (Some (key z))) as [-> | N].
      - destruct U as [[y [I Y]] _]. rewrite (R y) by congruence. unfold rows_before. now rewrite Y.
      - rewrite smaller_rows; [reflexivity | assumption | now apply (new_key last done z rest)]. }
    cbn [ranks]. fold now. intros [E | I]; [injection E as <- <-; exact Now |].
    replace (done ++ z :: rest) with ((done ++ [z]) ++ rest) in * by now rewrite <- app_assoc.
    apply (IH (done ++ [z]) now (Some (key z))); try assumption.
    - apply (up_to_next done z rest). now rewrite <- app_assoc in S.
    - intros y _ [= Y]. rewrite Now. unfold rows_before. now rewrite Y.
    - rewrite app_length. simpl length.
      replace (1 + Z.of_nat (length done + 1)) with (1 + Z.of_nat (length done) + 1) by lia.
      exact I.
  Qed.

  (** One key more is smaller. *)
  Lemma smaller_keys k done x rest : by_key (done ++ x :: rest) -> up_to (Some k) done -> k <> key x ->
    before (key x) (nodup same (map key (done ++ x :: rest))) = before k (nodup same (map key (done ++ x :: rest))) + 1.
  Proof.
    intros S U N. set (D := nodup same _). assert (ND : NoDup D) by apply NoDup_nodup.
    assert (L : forall y, In y done -> lt (key y) (key x) = true)
      by (apply (new_key (Some k) done x rest S U); congruence).
    destruct U as [[z [I Z]] M].
    assert (ID : In k D) by (apply nodup_In, in_map_iff; exists z; split; [| apply in_or_app]; auto).
    assert (One : total (fun d => one_if k d * 1) D = 1) by now apply (total_at_one (fun _ => 1)).
    unfold before. rewrite <- One at 1. rewrite <- total_add. apply total_ext. intros d J.
    apply nodup_In, in_map_iff in J as [y [<- J]]. apply in_app_or in J as [J | J].
    - rewrite L by assumption. destruct (same k (key y)) as [-> | E]; [rewrite one_if_same, lt_irreflexive; lia |].
      rewrite one_if_other by assumption. replace (lt (key y) k) with true; [lia |].
      symmetry. apply lt_spec. auto.
    - assert (G : le (key x) (key y) = true)
        by (destruct J as [<- | J]; [apply le_reflexive | now apply (sorted_split done x rest S)]).
      specialize (L z I). rewrite Z in L. apply lt_spec in L as [L _].
      rewrite (not_before _ _ G), not_before by (eapply le_transitive; eassumption).
      rewrite one_if_other; [lia |]. intros ->. apply N. now apply le_antisymmetric.
  Qed.

  Lemma dense_ranks_spec l : forall done rank last, by_key (done ++ l) -> up_to last done ->
    match last with None => rank = 0 | Some k => rank = 1 + before k (nodup same (map key (done ++ l))) end ->
    forall x n, In (x, n) (dense_ranks rank last l) -> n = 1 + keys_before x (done ++ l).
  Proof.
    induction l as [| z rest IH]; [easy |]. intros done rank last S U R x n.
    set (now := if same last (Some (key z)) then rank else rank + 1).
    assert (Now : now = 1 + keys_before z (done ++ z :: rest)).
    { unfold now, keys_before. destruct (same last (Some (key z))) as [-> | N]; [assumption |].
      destruct last as [k |].
      - rewrite (smaller_keys k) by (assumption || congruence). lia.
      - simpl in U. subst done. rewrite R. simpl app in *. unfold before. rewrite total_zero; [reflexivity |].
        intros d J. apply nodup_In, in_map_iff in J as [y [<- J]]. rewrite not_before; [reflexivity |].
        destruct J as [<- | J]; [apply le_reflexive | now apply (sorted_split [] z rest S)]. }
    cbn [dense_ranks]. fold now. intros [E | I]; [injection E as <- <-; exact Now |].
    replace (done ++ z :: rest) with ((done ++ [z]) ++ rest) in * by now rewrite <- app_assoc.
    apply (IH (done ++ [z]) now (Some (key z))); try assumption.
    apply (up_to_next done z rest). now rewrite <- app_assoc in S.
  Qed.

  Lemma rows_of_ranks l : forall position rank last, map fst (ranks position rank last l) = l.
  Proof. induction l; intros; simpl; [reflexivity | now rewrite IHl]. Qed.

  Lemma rows_of_dense_ranks l : forall rank last, map fst (dense_ranks rank last l) = l.
  Proof. induction l; intros; simpl; [reflexivity | now rewrite IHl]. Qed.

  Lemma filter_of_rows (numbered : list (T * Z)) (n : T -> Z) (k : Z) :
    (forall x m, In (x, m) numbered -> m = 1 + n x) ->
    map fst (filter (fun x => snd x <=? k) numbered) = filter (fun r => n r <? k) (map fst numbered).
  Proof.
    induction numbered as [| [x m] l IH]; intros E; simpl; [reflexivity |].
    rewrite (E x m) by now left. replace (1 + n x <=? k) with (n x <? k) by lia.
    specialize (IH (fun y j I => E y j (or_intror I))). destruct (n x <? k); simpl; now rewrite IH.
  Qed.

  (** RANK ≤ k by the reduction: the rows with fewer than [k] rows before. *)
  Definition top_rank (k : Z) (l : list T) : list T := filter (fun r => rows_before r l <? k) l.
  Definition top_dense_rank (k : Z) (l : list T) : list T := filter (fun r => keys_before r l <? k) l.

  Lemma filter_permutation (f g : T -> bool) l m : Permutation l m -> (forall r, f r = g r) ->
    Permutation (filter f l) (filter g m).
  Proof.
    intros P E. apply permutation_by_copies. intros r. rewrite !copies_filter, E.
    now rewrite (proj2 (permutation_by_copies l m) P r).
  Qed.

  Lemma rows_before_permutation r l m : Permutation l m -> rows_before r l = rows_before r m.
  Proof. apply total_permutation. Qed.

  Lemma keys_before_permutation r l m : Permutation l m -> keys_before r l = keys_before r m.
  Proof.
    intros P. apply before_permutation, permutation_by_copies. intros k. rewrite !copies_nodup.
    pose proof (Permutation_map key P) as M.
    destruct (in_or_not k (map key l)) as [I | N], (in_or_not k (map key m)) as [J | O]; try reflexivity.
    - destruct O. now apply (Permutation_in _ M).
    - destruct N. now apply (Permutation_in _ (Permutation_sym M)).
  Qed.

  Theorem rank_rule k l m : Permutation l m -> by_key m ->
    Permutation (map fst (filter (fun x => snd x <=? k) (ranks 1 0 None m))) (top_rank k l).
  Proof.
    intros P S. rewrite (filter_of_rows _ (fun r => rows_before r m)).
    - rewrite rows_of_ranks. apply Permutation_sym, filter_permutation; [assumption |]. intros r.
      now rewrite (rows_before_permutation r l m P).
    - apply (ranks_spec m [] 0 None S); easy.
  Qed.

  Theorem dense_rank_rule k l m : Permutation l m -> by_key m ->
    Permutation (map fst (filter (fun x => snd x <=? k) (dense_ranks 0 None m))) (top_dense_rank k l).
  Proof.
    intros P S. rewrite (filter_of_rows _ (fun r => keys_before r m)).
    - rewrite rows_of_dense_ranks. apply Permutation_sym, filter_permutation; [assumption |]. intros r.
      now rewrite (keys_before_permutation r l m P).
    - apply (dense_ranks_spec m [] 0 None S); easy.
  Qed.

  Lemma top_rank_unordered k : unordered (top_rank k).
  Proof.
    intros l m P. apply filter_permutation; [assumption |]. intros r. now rewrite (rows_before_permutation r l m P).
  Qed.

  Lemma top_dense_rank_unordered k : unordered (top_dense_rank k).
  Proof.
    intros l m P. apply filter_permutation; [assumption |]. intros r. now rewrite (keys_before_permutation r l m P).
  Qed.
End Rank.

(** ** Events and deltas: the touched partitions are computed again.  Without PARTITION BY there is one partition. *)
Section TopKOfPartitions.
  Context {T P K : Type} `{Row T} `{Row P} `{Row K} `{Order T} `{Order K}.
  Context (part : T -> P) (key : T -> K).

  Theorem limit_events k n (A : relation T) : lawful A -> lawful (grouped part (limit_offset k n) A).
  Proof. apply grouped_rule; [apply limit_offset_unordered |]. unfold limit_offset. now destruct n, k. Qed.

  Theorem limit_delta t0 d k n (A : time -> list T) : exact t0 d A ->
    exact t0 (delta_grouped part (limit_offset k n) d A) (fun s => partitioned part (limit_offset k n) (A s)).
  Proof. apply grouped_delta; [apply limit_offset_unordered |]. unfold limit_offset. now destruct n, k. Qed.

  Theorem rank_events k (A : relation T) : lawful A -> lawful (grouped part (top_rank key k) A).
  Proof. apply grouped_rule; [apply top_rank_unordered | reflexivity]. Qed.

  Theorem rank_delta t0 d k (A : time -> list T) : exact t0 d A ->
    exact t0 (delta_grouped part (top_rank key k) d A) (fun s => partitioned part (top_rank key k) (A s)).
  Proof. apply grouped_delta; [apply top_rank_unordered | reflexivity]. Qed.

  Theorem dense_rank_events k (A : relation T) : lawful A -> lawful (grouped part (top_dense_rank key k) A).
  Proof. apply grouped_rule; [apply top_dense_rank_unordered | reflexivity]. Qed.

  Theorem dense_rank_delta t0 d k (A : time -> list T) : exact t0 d A ->
    exact t0 (delta_grouped part (top_dense_rank key k) d A) (fun s => partitioned part (top_dense_rank key k) (A s)).
  Proof. apply grouped_delta; [apply top_dense_rank_unordered | reflexivity]. Qed.
End TopKOfPartitions.
