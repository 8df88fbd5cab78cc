(** The rewrites after the rules: merging, canonical order, the order of time, domains, access paths.
    (derivation/merge.py, canonical.py, simplify.py, localize.py, access_paths.py)

    What these modules do to names and to the text of SQL is not modelled.  What they do to rows is. *)

From Coq Require Import ZArith List Bool Lia Permutation.
From Weft Require Import Multisets Relation Tables Predicates Operators Parameters Query.
Import ListNotations.
Open Scope Z_scope.

(** ** merge: a relation is a union of blocks, apart from duplicates *)

(** A block: sources without derived tables, one condition, and the definition of each column over the sources. *)
Record block (c : columns) : Type := Block {
  from : columns;
  source : query from;
  where_ : row from -> condition;
  output : row from -> row c
}.

Arguments Block {c}.
Arguments from {c}.
Arguments source {c}.
Arguments where_ {c}.
Arguments output {c}.

Definition block_query {c} (b : block c) : query c := Project _ _ (output b) (Select _ (source b) (where_ b)).

(** [_blocks] of the Python module, case by case. *)
Fixpoint blocks {c} (q : query c) : list (block c) := match q with
  | Scan c stored periods => [Block c (Scan c stored periods) (fun _ => Plain true) (fun r => r)]
  | Values c t0 rows => [Block c (Values c t0 rows) (fun _ => Plain true) (fun r => r)]
  | Unit => [Block no_columns Unit (fun _ => Plain true) (fun r => r)]
  | Join c d a b =>
      flat_map (fun x => map (fun y =>
        @Block (beside c d) (beside (from x) (from y)) (Join _ _ (source x) (source y))
          (fun r => And (where_ x (fst r)) (where_ y (snd r)))
          (fun r => (output x (fst r), output y (snd r)))) (blocks b)) (blocks a)
  | Select c a p =>
      map (fun x => Block (from x) (source x) (fun r => And (where_ x r) (p (output x r))) (output x)) (blocks a)
  | Project c d f a => map (fun x => Block (from x) (source x) (where_ x) (fun r => f (output x r))) (blocks a)
  | Union c a b => blocks a ++ blocks b
  | Distinct c a => blocks a
  end.

Definition in_block {c} (b : block c) (s : time) (r : row c) : Prop :=
  exists x, In x (at_instant (meaning (source b)) s) /\ holds (judgement (where_ b x)) s = true /\ output b x = r.

Lemma in_block_query {c} (b : block c) s r : In r (at_instant (meaning (block_query b)) s) <-> in_block b s r.
Proof.
  simpl. rewrite in_map_iff. unfold in_block. split.
  - intros [x [E I]]. apply filter_In in I as [I P]. eauto.
  - intros [x [I [P E]]]. exists x. split; [assumption | now apply filter_In].
Qed.

Theorem merge_rule {c} (q : query c) s : forall r,
  In r (at_instant (meaning q) s) <-> exists b, In b (blocks q) /\ In r (at_instant (meaning (block_query b)) s).
Proof.
  enough (M : forall r, In r (at_instant (meaning q) s) <-> exists b, In b (blocks q) /\ in_block b s r).
  { intros r. rewrite M. split; intros [b [I B]]; exists b; split; auto; now apply in_block_query. }
  assert (One : forall c (b : block c) r (P : Prop), (P <-> in_block b s r) ->
    (P <-> exists b', In b' [b] /\ in_block b' s r)).
  { intros d b r P E. rewrite E. split; [exists b; split; [now left | assumption] |].
    now intros [b' [[<- | []] I]]. }
  induction q as [c stored periods | c t0 rows | | c d a IHa b IHb | c a IHa p | c d f a IHa | c a IHa b IHb | c a IHa];
    intros r.
  - apply One. split; [intros I; exists r; repeat split; auto | now intros [x [I [_ <-]]]].
  - apply One. split; [intros I; exists r; repeat split; auto | now intros [x [I [_ <-]]]].
  - apply One. split; [intros I; exists r; repeat split; auto | now intros [x [I [_ <-]]]].
  - destruct r as [u v]. simpl. rewrite in_prod_iff, IHa, IHb. split.
    + intros [[x [X [m [M [P E]]]]] [y [Y [n [N [Q F]]]]]].
      eexists. split; [apply in_flat_map; exists x; split; [exact X | apply in_map, Y] |].
      exists (m, n). simpl. rewrite in_prod_iff, P, Q, E, F. auto.
    + intros [z [Z I]]. apply in_flat_map in Z as [x [X Z]]. apply in_map_iff in Z as [y [<- Y]].
      destruct I as [[m n] [I [P E]]]. simpl in *. apply in_prod_iff in I as [M N]. apply andb_true_iff in P as [P Q].
      injection E as E F. split; [exists x | exists y]; split; auto; [exists m | exists n]; auto.
  - simpl. rewrite filter_In, IHa. split.
    + intros [[x [X [m [M [P E]]]]] Q]. eexists. split; [apply in_map, X |].
      exists m. simpl. rewrite P, E, Q. auto.
    + intros [z [Z I]]. apply in_map_iff in Z as [x [<- X]]. destruct I as [m [M [P E]]]. simpl in *.
      apply andb_true_iff in P as [P Q]. rewrite E in Q. split; [| assumption]. exists x. split; [assumption |].
      exists m. auto.
  - simpl. rewrite in_map_iff. split.
    + intros [u [E I]]. apply IHa in I as [x [X [m [M [P F]]]]]. eexists. split; [apply in_map, X |].
      exists m. simpl. rewrite F. auto.
    + intros [z [Z I]]. apply in_map_iff in Z as [x [<- X]]. destruct I as [m [M [P E]]]. simpl in *.
      exists (output x m). split; [assumption |]. apply IHa. exists x. split; [assumption |]. exists m. auto.
  - simpl. rewrite in_app_iff, IHa, IHb. split.
    + intros [[x [X I]] | [x [X I]]]; exists x; rewrite in_app_iff; auto.
    + intros [x [X I]]. apply in_app_or in X as [X | X]; [left | right]; eauto.
  - simpl. rewrite nodup_In. apply IHa.
Qed.

(** Under EXISTS a union becomes an OR, and under NOT EXISTS an AND. *)
Theorem merged_exists {c} (q : query c) s :
  holds (judgement (Exists c q)) s = existsb (fun b => holds (judgement (Exists c (block_query b))) s) (blocks q).
Proof.
  apply eq_true_iff_eq. rewrite existsb_exists. cbn [judgement exists_ holds]. split.
  - intros N. apply negb_true_iff, nonempty_spec in N as [r I]. apply merge_rule in I as [b [B I]].
    exists b. split; [assumption |]. apply negb_true_iff, nonempty_spec. eauto.
  - intros [b [B N]]. apply negb_true_iff, nonempty_spec in N as [r I].
    apply negb_true_iff, nonempty_spec. exists r. apply merge_rule. eauto.
Qed.

Theorem merged_not_exists {c} (q : query c) s :
  holds (judgement (NotExists c q)) s = forallb (fun b => holds (judgement (NotExists c (block_query b))) s) (blocks q).
Proof.
  pose proof (f_equal negb (merged_exists q s)) as M. cbn [judgement exists_ not_exists holds] in *.
  rewrite negb_involutive in M. rewrite M. clear M. induction (blocks q) as [| b l IH]; [reflexivity |].
  cbn [existsb forallb]. rewrite negb_orb, negb_involutive, IH. reflexivity.
Qed.

(** ** canonical: the order of conjuncts has no meaning *)
Theorem canonical_rule (items others : list predicate) s : Permutation items others ->
  holds (conjunction items) s = holds (conjunction others) s.
Proof.
  induction 1 as [| p l m P IH | p q l | l m n P IHP Q IHQ]; simpl in *; [reflexivity | congruence | | congruence].
  now destruct (holds p s), (holds q s).
Qed.

(** ** simplify: what the order of time decides.  [least] and [most] bound [right - left]. *)
Theorem simplify_rule left right least most : least <= right - left <= most ->
  (0 <= least -> (left <=? right) = true) /\ (most < 0 -> (left <=? right) = false) /\
  (1 <= least -> (left <? right) = true) /\ (most < 1 -> (left <? right) = false).
Proof. lia. Qed.

(** ** order: bounds [value x - value y <= c] along a cycle with a negative sum contradict each other *)
Fixpoint bounded (value : nat -> Z) x (steps : list (nat * Z)) : Prop :=
  match steps with
  | nil => True
  | (y, c) :: rest => value x - value y <= c /\ bounded value y rest
  end.

Fixpoint last_of (x : nat) (steps : list (nat * Z)) : nat :=
  match steps with nil => x | (y, _) :: rest => last_of y rest end.

Definition total (steps : list (nat * Z)) : Z := fold_right (fun step sum => snd step + sum) 0 steps.

Theorem contradiction_rule value x steps : last_of x steps = x -> total steps < 0 -> ~ bounded value x steps.
Proof.
  assert (forall y, bounded value y steps -> value y - value (last_of y steps) <= total steps) as P.
  { induction steps as [| [z c] rest IH]; intros y B; simpl in *; [lia |]. destruct B as [B R]. apply IH in R. lia. }
  intros E N B. apply P in B. rewrite E in B. lia.
Qed.

(** ** localize: a domain with the values of the outer columns

    EXISTS (B) = EXISTS (D ⋈ B[c := d.c] with d.c <=> c), where the domain D has every value of [c] that occurs
    outside. *)
Theorem localize_rule {C T} `{Row C} `{Row T} (domain : list C) (body : C -> list T) (c : C) : In c domain ->
  empty (body c) = empty (filter (fun x => equals (fst x) c) (with_each domain body)).
Proof.
  intros I. apply eq_true_iff_eq. rewrite <- !not_false_iff_true, !nonempty_spec. apply not_iff_compat. split.
  - intros [r B]. exists (c, r). rewrite filter_In, with_each_spec, (equals_spec c). auto.
  - intros [[d r] B]. rewrite filter_In, with_each_spec, (equals_spec d) in B. simpl in B.
    destruct B as [[_ B] ->]. eauto.
Qed.

(** ** access_paths: a branch returns the same rows through its access paths

    The branch joins its driver [a] with another table [b].  Its condition puts the driver's instant into the window
    and equates two keys.  The path of the driver has all rows of the window; the look-up has all rows whose key one
    of these rows has.  Both may have more rows: the branch checks its condition itself. *)
Theorem access_paths_rule {T U K} `{Row T} `{Row U} `{Row K} (a a' : list T) (b b' : list U)
  (in_window : T -> bool) (key : T -> K) (key' : U -> K) (condition : T * U -> bool) :
  (forall x y, condition (x, y) = true -> in_window x = true /\ key x = key' y) ->
  (forall x, in_window x = true -> copies x a' = copies x a) ->
  (forall y, (exists x, In x a' /\ key x = key' y) -> copies y b' = copies y b) ->
  forall r, copies r (filter condition (list_prod a' b')) = copies r (filter condition (list_prod a b)).
Proof.
  intros C A B [x y]. rewrite !copies_filter. destruct (condition (x, y)) eqn:E; [| reflexivity].
  apply C in E as [W K']. rewrite !copies_product, <- A by assumption.
  destruct (in_or_not x a') as [I | N]; [rewrite B by eauto; reflexivity |].
  apply copies_not_in in N. rewrite N. reflexivity.
Qed.
