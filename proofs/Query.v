(** The whole language: every query that is built from the operators is lawful, and laws 1 and 2 hold for it.

    The other files prove one operator at a time.  Here queries are trees, as in algebra/relation.py.  A condition is a
    function of the row that it judges; the body of EXISTS may therefore use all rows around it, at any depth. *)

From Coq Require Import ZArith List Bool Lia Permutation.
From Weft Require Import Multisets Relation Tables Predicates Operators Laws.
Import ListNotations.
Open Scope Z_scope.

(** The types of rows.  A number stands for a value of any SQL type; the rules never look into values. *)
Inductive columns : Type := no_columns | number | nullable (c : columns) | beside (c d : columns).

Fixpoint row (c : columns) : Type := match c with
  | no_columns => unit
  | number => Z
  | nullable c => option (row c)
  | beside c d => row c * row d
  end.

Fixpoint compare_rows (c : columns) : Row (row c) := match c with
  | no_columns => row_unit
  | number => row_Z
  | nullable c => @row_option _ (compare_rows c)
  | beside c d => @row_pair _ _ (compare_rows c) (compare_rows d)
  end.

#[export] Existing Instance compare_rows.

Inductive query : columns -> Type :=
  | Scan c (stored : list (life (row c))) (periods : forall x, In x stored -> nonempty x) : query c
  | Values c (t0 : time) (rows : list (row c)) : query c
  | Unit : query no_columns
  | Join c d (a : query c) (b : query d) : query (beside c d)
  | Select c (a : query c) (p : row c -> condition) : query c
  | Project c d (f : row c -> row d) (a : query c) : query d
  | Union c (a b : query c) : query c
  | Distinct c (a : query c) : query c
with condition : Type :=
  | Plain (b : bool)
  | And (p q : condition)
  | Or (p q : condition)
  | NowFrom (threshold : option time)
  | NowBefore (threshold : option time)
  | Calendar (judged : time -> bool) (turns : list time)
      (all_turns : forall s, judged (s - 1) <> judged s -> In s turns)
  | Exists c (body : query c)
  | NotExists c (body : query c).

Fixpoint meaning {c} (q : query c) : relation (row c) := match q with
  | Scan c stored _ => scan stored
  | Values c t0 rows => values t0 rows
  | Unit => unit_relation
  | Join c d a b => join (meaning a) (meaning b)
  | Select c a p => select (meaning a) (fun r => judgement (p r))
  | Project c d f a => project f (meaning a)
  | Union c a b => union (meaning a) (meaning b)
  | Distinct c a => distinct (meaning a)
  end
with judgement (p : condition) : predicate := match p with
  | Plain b => plain b
  | And p q => both (judgement p) (judgement q)
  | Or p q => either (judgement p) (judgement q)
  | NowFrom c => now_from c
  | NowBefore d => now_before d
  | Calendar judged turns _ => calendar judged turns
  | Exists c body => exists_ (meaning body)
  | NotExists c body => not_exists (meaning body)
  end.

Fixpoint query_lawful {c} (q : query c) : lawful (meaning q) := match q with
  | Scan c stored periods => scan_rule stored periods
  | Values c t0 rows => values_rule t0 rows
  | Unit => join_of_nothing_rule
  | Join c d a b => join_rule _ _ (query_lawful a) (query_lawful b)
  | Select c a p => select_rule _ _ (query_lawful a) (fun r => condition_lawful (p r))
  | Project c d f a => project_rule f _ (query_lawful a)
  | Union c a b => union_rule _ _ (query_lawful a) (query_lawful b)
  | Distinct c a => distinct_rule _ (query_lawful a)
  end
with condition_lawful (p : condition) : lawful_predicate (judgement p) := match p with
  | Plain b => plain_rule b
  | And p q => and_rule _ _ (condition_lawful p) (condition_lawful q)
  | Or p q => or_rule _ _ (condition_lawful p) (condition_lawful q)
  | NowFrom c => now_from_rule c
  | NowBefore d => now_before_rule d
  | Calendar judged turns all_turns => calendar_rule judged turns all_turns
  | Exists c body => exists_rule _ (query_lawful body)
  | NotExists c body => not_exists_rule _ (query_lawful body)
  end.

Theorem every_query_is_lawful {c} (q : query c) : lawful (meaning q).
Proof. apply query_lawful. Qed.

(** A query whose rows all begin at [t0] or later.  [Unit] is the only relation that has rows before: Weft never makes a
    query of it alone, because a SELECT without FROM is one row of VALUES. *)
Fixpoint begins_at {c} (t0 : time) (q : query c) : Prop := match q with
  | Scan c stored _ => Forall (fun x => t0 <= start x) stored
  | Values c t rows => t0 <= t
  | Unit => False
  | Join c d a b => begins_at t0 a \/ begins_at t0 b
  | Select c a p => begins_at t0 a
  | Project c d f a => begins_at t0 a
  | Union c a b => begins_at t0 a /\ begins_at t0 b
  | Distinct c a => begins_at t0 a
  end.

Lemma product_with_nothing {A B} (l : list A) : @list_prod A B l [] = [].
Proof. now induction l. Qed.

Theorem empty_before {c} (q : query c) t0 : begins_at t0 q -> forall s, s < t0 -> at_instant (meaning q) s = [].
Proof.
  intros B s S. induction q; simpl in *.
  - induction B as [| x l P B IH]; simpl; [reflexivity |].
    replace (alive s x) with false; [apply IH; intros y I; apply periods; now right |].
    symmetry. apply not_true_iff_false. rewrite alive_spec. lia.
  - destruct (Z.leb_spec t1 s); [lia | reflexivity].
  - easy.
  - destruct B as [B | B]; [rewrite IHq1 by assumption | rewrite IHq2 by assumption];
      [reflexivity | apply product_with_nothing].
  - now rewrite IHq.
  - now rewrite IHq.
  - destruct B. now rewrite IHq1, IHq2.
  - now rewrite IHq.
Qed.

(** Laws 1 and 2 for every query of the language. *)
Theorem query_law_1 {c} (q : query c) t0 ts : begins_at t0 q -> in_order t0 ts -> forall r s,
  In (r, s) (deliveries (meaning q) [] t0 ts) <-> s < reached t0 ts /\ first_answer (meaning q) r s.
Proof. intros B O. apply law_1; [apply query_lawful | now apply empty_before | assumption]. Qed.

Theorem query_law_1_once {c} (q : query c) t0 ts : begins_at t0 q -> in_order t0 ts ->
  NoDup (map fst (deliveries (meaning q) [] t0 ts)).
Proof. intros B O. apply law_1_once; [apply query_lawful | now apply empty_before | assumption]. Qed.

Theorem query_law_2 {c} (q : query c) t0 ts us : begins_at t0 q -> in_order t0 ts -> in_order t0 us ->
  reached t0 ts = reached t0 us ->
  Permutation (deliveries (meaning q) [] t0 ts) (deliveries (meaning q) [] t0 us).
Proof. intros B O P R. apply law_2; try assumption; [apply query_lawful | now apply empty_before]. Qed.
