(** Outer joins by their reduction: A ⟕ B is A ⋈ B, and A ▷ B with NULLs; FULL adds B ▷ A with NULLs.

    A row of NULLs beside a row of the other side is [None].  The ON condition [p] may depend on both rows and NOW. *)

From Coq Require Import ZArith List Bool Lia Permutation.
From Weft Require Import Multisets Relation Predicates Operators Deltas.
Import ListNotations.
Open Scope Z_scope.

Section OuterJoin.
  Context {T U : Type} `{Row T} `{Row U}.
  Context (p : T -> U -> predicate).
  Hypothesis p_lawful : forall a b, lawful_predicate (p a b).

  (** ** The meaning in SQL: each row of the left side with its partners, or once with NULLs if it has none *)

  Definition partners (a : T) (s : time) (rows : list U) : list U := filter (fun b => holds (p a b) s) rows.

  Definition with_nulls (rows : list U) : list (option U) := match rows with [] => [None] | _ => map Some rows end.

  Definition left_rows (s : time) (l : list T) (m : list U) : list (T * option U) :=
    flat_map (fun a => map (pair a) (with_nulls (partners a s m))) l.

  (** FULL adds each row of the right side that is no row's partner. *)
  Definition is_partner (b : U) (s : time) (l : list T) : bool := existsb (fun a => holds (p a b) s) l.

  Definition full_rows (s : time) (l : list T) (m : list U) : list (option T * option U) :=
    map (fun x => (Some (fst x), snd x)) (left_rows s l m) ++
    map (fun b => (None, Some b)) (filter (fun b => negb (is_partner b s l)) m).

  (** ** The reduction, by operators that have rules *)

  Definition matched (A : relation T) (B : relation U) : relation (T * option U) :=
    project (fun x => (fst x, Some (snd x))) (select (join A B) (fun x => p (fst x) (snd x))).

  Definition unmatched (A : relation T) (B : relation U) : relation (T * option U) :=
    project (fun a => (a, None)) (select A (fun a => not_exists (select B (p a)))).

  Definition left_join (A : relation T) (B : relation U) : relation (T * option U) :=
    union (matched A B) (unmatched A B).

  Definition unmatched_right (A : relation T) (B : relation U) : relation (option T * option U) :=
    project (fun b => (None, Some b)) (select B (fun b => not_exists (select A (fun a => p a b)))).

  Definition full_join (A : relation T) (B : relation U) : relation (option T * option U) :=
    union (project (fun x => (Some (fst x), snd x)) (left_join A B)) (unmatched_right A B).

  Lemma matched_of_one a s m :
    filter (fun x => holds (p (fst x) (snd x)) s) (map (pair a) m) = map (pair a) (partners a s m).
  Proof.
    unfold partners. induction m as [| b m IH]; simpl; [reflexivity |].
    destruct (holds (p a b) s); simpl; now rewrite IH.
  Qed.

  (** Row by row, the matched and the unmatched rows are the rows with their partners or with NULLs. *)
  Theorem left_join_means A B s :
    Permutation (at_instant (left_join A B) s) (left_rows s (at_instant A s) (at_instant B s)).
  Proof.
    simpl. generalize (at_instant A s) as l, (at_instant B s) as m. intros l m.
    induction l as [| a l IH]; simpl; [constructor |].
    rewrite filter_app, map_app, matched_of_one, map_map. simpl.
    change (filter (fun r => holds (p a r) s) m) with (partners a s m).
    destruct (partners a s m) as [| b rest]; simpl.
    - apply Permutation_sym, Permutation_cons_app, Permutation_sym. exact IH.
    - apply perm_skip. rewrite <- app_assoc, map_map. now apply Permutation_app_head.
  Qed.

  Theorem full_join_means A B s :
    Permutation (at_instant (full_join A B) s) (full_rows s (at_instant A s) (at_instant B s)).
  Proof.
    unfold full_rows. simpl. apply Permutation_app.
    - apply Permutation_map, left_join_means.
    - erewrite filter_ext; [reflexivity |]. intros b. unfold is_partner.
      induction (at_instant A s) as [| a l IH]; simpl; [reflexivity |]. destruct (holds (p a b) s); simpl; auto.
  Qed.

  (** ** So their events and deltas are those of the operators *)

  Theorem left_join_rule A B : lawful A -> lawful B -> lawful (left_join A B).
  Proof.
    intros LA LB. apply union_rule.
    - apply project_rule, select_rule; [now apply join_rule | auto].
    - apply project_rule, select_rule; [assumption |]. intros a. now apply not_exists_rule, select_rule.
  Qed.

  Theorem full_join_rule A B : lawful A -> lawful B -> lawful (full_join A B).
  Proof.
    intros LA LB. apply union_rule.
    - apply project_rule. now apply left_join_rule.
    - apply project_rule, select_rule; [assumption |]. intros b. apply not_exists_rule, select_rule; auto.
  Qed.

  Definition delta_left_join (d : delta T) (e : delta U) (A : relation T) (B : relation U) : delta (T * option U) :=
    delta_union
      (delta_project (fun x => (fst x, Some (snd x)))
        (delta_select (delta_join d e A B) (join A B) (fun x => p (fst x) (snd x))))
      (delta_project (fun a => (a, None)) (delta_select d A (fun a => not_exists (select B (p a))))).

  Theorem left_join_delta t0 d e A B : exact t0 d (at_instant A) -> exact t0 e (at_instant B) -> lawful B ->
    exact t0 (delta_left_join d e A B) (at_instant (left_join A B)).
  Proof.
    intros XA XB LB. apply union_delta.
    - apply project_delta, select_delta; [now apply join_delta | auto].
    - apply project_delta, not_exists_delta; [assumption |]. intros a. now apply select_rule.
  Qed.

  Definition delta_full_join (d : delta T) (e : delta U) (A : relation T) (B : relation U) :
    delta (option T * option U) :=
    delta_union
      (delta_project (fun x => (Some (fst x), snd x)) (delta_left_join d e A B))
      (delta_project (fun b => (None, Some b)) (delta_select e B (fun b => not_exists (select A (fun a => p a b))))).

  Theorem full_join_delta t0 d e A B : exact t0 d (at_instant A) -> exact t0 e (at_instant B) ->
    lawful A -> lawful B -> exact t0 (delta_full_join d e A B) (at_instant (full_join A B)).
  Proof.
    intros XA XB LA LB. apply union_delta.
    - apply project_delta. now apply left_join_delta.
    - apply project_delta, not_exists_delta; [assumption |]. intros b. apply select_rule; auto.
  Qed.
End OuterJoin.
