(** Exact deltas of DISTINCT, EXCEPT [ALL] and INTERSECT [ALL].

    Here the multiplicity of a row in the result is a function of its multiplicities in the inputs.  A row is *touched*
    at an instant if a delta of an input names it.  Only touched rows are looked at, and each once. *)

From Coq Require Import ZArith List Bool Lia.
From Weft Require Import Multisets Relation Operators Deltas.
Import ListNotations.
Open Scope Z_scope.

(** ** Touched rows *)
Section Touched.
  Context {T : Type} `{Row T}.

  (** The difference of multiplicities for each touched row. *)
  Definition delta_touched (touched : time -> list T) (E : time -> list T) : delta T := fun s =>
    map (fun r => (r, copies r (E s) - copies r (E (s - 1)))) (nodup same (touched s)).

  Lemma amount_of_function r (n : T -> Z) (rows : list T) : NoDup rows ->
    amount r (map (fun x => (x, n x)) rows) = if in_or_not r rows then n r else 0.
  Proof.
    intros D. unfold amount. rewrite total_map. simpl. destruct (in_or_not r rows) as [I | N].
    - rewrite (total_ext _ (fun x => one_if x r * n r)).
      + transitivity (total (fun x => one_if r x * n r) rows); [| exact (total_at_one (fun _ => n r) r rows D I)].
        apply total_ext. intros x _. now rewrite one_if_symmetric.
      + intros x _. destruct (same x r) as [-> | N]; [reflexivity |]. now rewrite one_if_other by assumption.
    - apply total_zero. intros x I. rewrite one_if_other; [reflexivity |]. congruence.
  Qed.

  (** Whatever the operator: if every row whose multiplicity changes is touched, the delta is exact. *)
  Theorem touched_delta t0 (touched : time -> list T) (E : time -> list T) :
    (forall s, s < t0 -> E s = []) ->
    (forall s r, t0 <= s -> copies r (E s) <> copies r (E (s - 1)) -> In r (touched s)) ->
    exact t0 (delta_touched touched E) E.
  Proof.
    intros B C. apply exact_steps. split; intros s r L; [now rewrite B |].
    unfold delta_touched. rewrite amount_of_function by apply NoDup_nodup.
    destruct (in_or_not r (nodup same (touched s))) as [I | N]; [reflexivity |].
    rewrite nodup_In in N. destruct (Z.eq_dec (copies r (E s)) (copies r (E (s - 1)))); [lia |].
    destruct N. now apply C.
  Qed.

  Lemma untouched_same t0 (d : delta T) A s r : exact t0 d A -> t0 <= s ->
    ~ In r (map fst (d s)) -> copies r (A s) = copies r (A (s - 1)).
  Proof. intros [_ S]%exact_steps L N. specialize (S s r L). rewrite amount_elsewhere in S by assumption. lia. Qed.

  Lemma nothing_before t0 (d : delta T) A s : exact t0 d A -> s < t0 -> A s = [].
  Proof. intros [B _]%exact_steps L. apply empty_by_copies. intros r. now apply B. Qed.

  (** A result whose multiplicities are a function [f] of those of two inputs. *)
  Theorem pointwise_delta t0 (d e : delta T) (A B E : time -> list T) (f : Z -> Z -> Z) :
    exact t0 d A -> exact t0 e B -> f 0 0 = 0 ->
    (forall s r, copies r (E s) = f (copies r (A s)) (copies r (B s))) ->
    exact t0 (delta_touched (fun s => map fst (d s ++ e s)) E) E.
  Proof.
    intros XA XB F M. apply touched_delta.
    - intros s L. apply empty_by_copies. intros r.
      now rewrite M, (nothing_before t0 d A s), (nothing_before t0 e B s), copies_nil.
    - intros s r L N. destruct (in_or_not r (map fst (d s ++ e s))) as [I | O]; [assumption |].
      rewrite map_app, in_app_iff in O. destruct N.
      rewrite !M, (untouched_same t0 d A s), (untouched_same t0 e B s) by tauto. reflexivity.
  Qed.
End Touched.

Section Sets.
  Context {T : Type} `{Row T}.

  (** ** DISTINCT, EXCEPT and INTERSECT *)

  Lemma copies_distinct r (l : list T) : copies r (nodup same l) = Z.min 1 (copies r l).
  Proof.
    rewrite copies_nodup. pose proof (copies_nonnegative r l).
    destruct (in_or_not r l) as [I | N]; [apply copies_in in I | apply copies_not_in in N]; lia.
  Qed.

  Theorem distinct_delta t0 d (A : relation T) : exact t0 d (at_instant A) ->
    exact t0 (delta_touched (fun s => map fst (d s)) (at_instant (distinct A))) (at_instant (distinct A)).
  Proof.
    intros X. apply touched_delta.
    - intros s L. simpl. now rewrite (nothing_before t0 d (at_instant A) s).
    - intros s r L N. destruct (in_or_not r (map fst (d s))) as [I | O]; [assumption |]. destruct N.
      simpl. rewrite !copies_distinct. now rewrite (untouched_same t0 d (at_instant A) s).
  Qed.

  Lemma copies_difference (A B : relation T) s r : copies r (at_instant (difference A B) s) =
    if in_or_not r (at_instant B s) then 0 else Z.min 1 (copies r (at_instant A s)).
  Proof.
    pose proof (difference_means A B s r) as M. pose proof (copies_nonnegative r (at_instant A s)).
    assert (D : NoDup (at_instant (difference A B) s)) by apply NoDup_nodup.
    destruct (in_or_not r (at_instant B s)).
    - apply copies_not_in. tauto.
    - destruct (in_or_not r (at_instant A s)) as [I | N].
      + rewrite copies_of_distinct by tauto. apply copies_in in I. lia.
      + assert (Z : copies r (at_instant (difference A B) s) = 0) by (apply copies_not_in; tauto).
        apply copies_not_in in N. lia.
  Qed.

  Theorem difference_delta t0 d e (A B : relation T) : exact t0 d (at_instant A) -> exact t0 e (at_instant B) ->
    exact t0 (delta_touched (fun s => map fst (d s ++ e s)) (at_instant (difference A B)))
      (at_instant (difference A B)).
  Proof.
    intros XA XB. apply (pointwise_delta t0 d e (at_instant A) (at_instant B) _
      (fun a b => if 0 <? b then 0 else Z.min 1 a)); auto.
    intros s r. rewrite copies_difference.
    destruct (in_or_not r (at_instant B s)) as [I | N]; [apply copies_in in I | apply copies_not_in in N];
      destruct (Z.ltb_spec 0 (copies r (at_instant B s))); lia.
  Qed.

  Theorem intersection_delta t0 d e (A B : relation T) : exact t0 d (at_instant A) -> exact t0 e (at_instant B) ->
    exact t0 (delta_touched (fun s => map fst (d s ++ e s)) (at_instant (intersection A B)))
      (at_instant (intersection A B)).
  Proof.
    intros XA XB. apply (pointwise_delta t0 d e (at_instant A) (at_instant B) _ (fun a b => Z.min 1 (Z.min a b))); auto.
    intros s r. pose proof (intersection_means A B s r) as M. rewrite !copies_in in M.
    assert (D : NoDup (at_instant (intersection A B) s)) by apply NoDup_nodup.
    pose proof (copies_nonnegative r (at_instant A s)). pose proof (copies_nonnegative r (at_instant B s)).
    destruct (in_or_not r (at_instant (intersection A B) s)) as [I | N].
    - rewrite copies_of_distinct by assumption. apply copies_in in I. lia.
    - assert (Z : copies r (at_instant (intersection A B) s) = 0) by now apply copies_not_in. lia.
  Qed.

  (** ** EXCEPT ALL and INTERSECT ALL *)

  Fixpoint remove_one (r : T) (l : list T) : list T := match l with
    | [] => []
    | x :: rest => if same x r then rest else x :: remove_one r rest
    end.

  (** Each row of the right side removes one equal row of the left side. *)
  Definition except_all (l m : list T) : list T := fold_right remove_one l m.

  (** The rows of the left side that EXCEPT ALL would remove. *)
  Definition intersect_all (l m : list T) : list T := except_all l (except_all l m).

  Lemma copies_remove_one r x l : copies r (remove_one x l) = Z.max 0 (copies r l - one_if x r) \/
    x <> r /\ copies r (remove_one x l) = copies r l.
  Proof.
    destruct (same x r) as [<- | N].
    - left. rewrite one_if_same. induction l as [| y l IH]; [reflexivity |]. simpl. pose proof (copies_nonnegative x l).
      destruct (same y x) as [-> | D]; rewrite !copies_cons; [rewrite one_if_same; lia |].
      rewrite one_if_other by assumption. rewrite IH. lia.
    - right. split; [assumption |]. induction l as [| y l IH]; [reflexivity |]. simpl.
      destruct (same y x) as [-> | D]; rewrite !copies_cons; [rewrite one_if_other by assumption; lia | now rewrite IH].
  Qed.

  Lemma copies_except_all r l m : copies r (except_all l m) = Z.max 0 (copies r l - copies r m).
  Proof.
    pose proof (copies_nonnegative r l). induction m as [| x m IH]; simpl; [rewrite copies_nil; lia |].
    rewrite copies_cons. pose proof (copies_nonnegative r m).
    destruct (copies_remove_one r x (except_all l m)) as [E | [N E]]; rewrite E, IH.
    - pose proof (one_if_nonnegative x r). lia.
    - rewrite one_if_other by assumption. lia.
  Qed.

  Lemma copies_intersect_all r l m : copies r (intersect_all l m) = Z.min (copies r l) (copies r m).
  Proof.
    unfold intersect_all. rewrite !copies_except_all.
    pose proof (copies_nonnegative r l). pose proof (copies_nonnegative r m). lia.
  Qed.

  Theorem except_all_delta t0 d e (A B : time -> list T) : exact t0 d A -> exact t0 e B ->
    let E s := except_all (A s) (B s) in exact t0 (delta_touched (fun s => map fst (d s ++ e s)) E) E.
  Proof.
    intros XA XB. apply (pointwise_delta t0 d e A B _ (fun a b => Z.max 0 (a - b))); auto.
    intros s r. apply copies_except_all.
  Qed.

  Theorem intersect_all_delta t0 d e (A B : time -> list T) : exact t0 d A -> exact t0 e B ->
    let E s := intersect_all (A s) (B s) in exact t0 (delta_touched (fun s => map fst (d s ++ e s)) E) E.
  Proof.
    intros XA XB. apply (pointwise_delta t0 d e A B _ Z.min); auto.
    intros s r. apply copies_intersect_all.
  Qed.
End Sets.
