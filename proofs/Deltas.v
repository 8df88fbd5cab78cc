(** Exact deltas: signed multisets of rows at instants.

    The events of [starts] and [ends] are candidates: NOT EXISTS has one event for each blocker that leaves.  Counting
    needs deltas (row, s, ±n) whose sum up to [s] is the relation at [s], multiplicities included.  That is [exact]. *)

From Coq Require Import ZArith List Bool Lia Permutation.
From Weft Require Import Multisets Relation Tables Predicates Operators Laws.
Import ListNotations.
Open Scope Z_scope.

(** The signed rows of each instant. *)
Definition delta (T : Type) : Type := time -> list (T * Z).

(** How much a list of signed rows adds to the multiplicity of [r], and to the sum of [g] over all rows. *)
Definition amount {T} `{Row T} (r : T) (l : list (T * Z)) : Z := total (fun x => one_if (fst x) r * snd x) l.
Definition weighted {T} (g : T -> Z) (l : list (T * Z)) : Z := total (fun x => g (fst x) * snd x) l.

Arguments amount : simpl never.

(** The sum of the deltas of the window [from, to). *)
Definition sum {T} `{Row T} (d : delta T) (from to : time) (r : T) : Z :=
  total (fun u => amount r (d u)) (window from to).

(** The law: the deltas from the beginning of time up to [s], with [s], add up to at(E, s). *)
Definition exact {T} `{Row T} (t0 : time) (d : delta T) (E : time -> list T) : Prop :=
  forall s r, sum d t0 (s + 1) r = copies r (E s).

(** ** Exact means: empty before [t0], and then each delta is the difference to the instant before *)
Section Exact.
  Context {T : Type} `{Row T}.
  Implicit Types (d : delta T) (E : time -> list T).

  Lemma amount_app r (l m : list (T * Z)) : amount r (l ++ m) = amount r l + amount r m.
  Proof. apply total_app. Qed.

  Lemma instants_snoc n : forall s, instants s (S n) = instants s n ++ [s + Z.of_nat n].
  Proof.
    induction n; intros s.
    - simpl. now rewrite Z.add_0_r.
    - change (instants s (S (S n))) with (s :: instants (s + 1) (S n)). rewrite IHn. simpl. do 3 f_equal. lia.
  Qed.

  Lemma sum_nothing d from to r : to <= from -> sum d from to r = 0.
  Proof. intros L. unfold sum, window. now replace (Z.to_nat (to - from)) with 0%nat by lia. Qed.

  Lemma sum_next d from to r : from <= to -> sum d from (to + 1) r = sum d from to r + amount r (d to).
  Proof.
    intros L. unfold sum, window. replace (Z.to_nat (to + 1 - from)) with (S (Z.to_nat (to - from))) by lia.
    rewrite instants_snoc, total_app. simpl. replace (from + Z.of_nat (Z.to_nat (to - from))) with to by lia. lia.
  Qed.

  Definition steps t0 d E : Prop :=
    (forall s r, s < t0 -> copies r (E s) = 0) /\
    (forall s r, t0 <= s -> amount r (d s) = copies r (E s) - copies r (E (s - 1))).

  Lemma steps_sum t0 d E : steps t0 d E -> forall n from r, t0 <= from ->
    sum d from (from + Z.of_nat n) r = copies r (E (from + Z.of_nat n - 1)) - copies r (E (from - 1)).
  Proof.
    intros [_ S] n from r F. induction n as [| n IH].
    - rewrite sum_nothing by lia. simpl. rewrite Z.add_0_r. lia.
    - replace (from + Z.of_nat (Datatypes.S n)) with (from + Z.of_nat n + 1) by lia.
      rewrite sum_next, IH, S by lia. rewrite Z.add_simpl_r. lia.
  Qed.

  Theorem exact_steps t0 d E : exact t0 d E <-> steps t0 d E.
  Proof.
    split.
    - intros X. split.
      + intros s r L. rewrite <- X. apply sum_nothing. lia.
      + intros s r L. rewrite <- (X s), <- (X (s - 1)), sum_next by assumption.
        replace (s - 1 + 1) with s by lia. lia.
    - intros S s r. destruct (Z_lt_le_dec s t0) as [L | L].
      + rewrite sum_nothing by lia. symmetry. now apply S.
      + pose proof (steps_sum t0 d E S (Z.to_nat (s + 1 - t0)) t0 r (Z.le_refl t0)) as Q.
        replace (t0 + Z.of_nat (Z.to_nat (s + 1 - t0))) with (s + 1) in Q by lia.
        destruct S as [B _]. rewrite Q, (B (t0 - 1)) by lia. rewrite Z.add_simpl_r. lia.
  Qed.

  (** A tick needs only the state before its window and the deltas of the window. *)
  Theorem state_and_deltas t0 d E from s r : exact t0 d E -> t0 <= from <= s + 1 ->
    copies r (E s) = copies r (E (from - 1)) + sum d from (s + 1) r.
  Proof.
    intros X B. apply exact_steps in X.
    pose proof (steps_sum t0 d E X (Z.to_nat (s + 1 - from)) from r ltac:(lia)) as Q.
    replace (from + Z.of_nat (Z.to_nat (s + 1 - from))) with (s + 1) in Q by lia.
    rewrite Q, Z.add_simpl_r. lia.
  Qed.

  Lemma empty_by_copies (l : list T) : (forall r, copies r l = 0) -> l = [].
  Proof. destruct l as [| x l]; [reflexivity |]. intros Z. specialize (Z x). apply copies_not_in in Z.
    destruct Z. now left.
  Qed.
End Exact.

(** ** A sum over all rows changes by the weighted sum of the delta *)
Section Linear.
  Context {T : Type} `{Row T}.

  Lemma weighted_by_amounts (g : T -> Z) (l : list (T * Z)) D :
    NoDup D -> incl (map fst l) D -> weighted g l = total (fun r => amount r l * g r) D.
  Proof.
    intros ND. unfold weighted. induction l as [| [x n] l IH]; intros I; simpl.
    - symmetry. apply total_zero. reflexivity.
    - rewrite IH by (intros y Y; apply I; now right).
      rewrite (total_ext (fun r => amount r ((x, n) :: l) * g r) (fun r => one_if x r * (n * g r) + amount r l * g r)).
      + rewrite total_add, (total_at_one (fun r => n * g r)); [lia | assumption | apply I; now left].
      + intros r _. unfold amount. simpl. lia.
  Qed.

  Lemma amount_elsewhere r (l : list (T * Z)) : ~ In r (map fst l) -> amount r l = 0.
  Proof.
    intros N. apply total_zero. intros [x n] I. simpl. rewrite one_if_other; [lia |].
    intros ->. apply N. apply in_map_iff. exists (r, n). auto.
  Qed.

  Theorem linear t0 (d : delta T) E (g : T -> Z) s : exact t0 d E -> t0 <= s ->
    weighted g (d s) = total g (E s) - total g (E (s - 1)).
  Proof.
    intros X B. apply exact_steps in X as [_ X].
    set (D := nodup same (map fst (d s) ++ E s ++ E (s - 1))).
    assert (ND : NoDup D) by apply NoDup_nodup.
    assert (I : forall r, In r (map fst (d s)) \/ In r (E s) \/ In r (E (s - 1)) -> In r D)
      by (intros r; unfold D; now rewrite nodup_In, !in_app_iff).
    rewrite (weighted_by_amounts g (d s) D), (total_by_copies g (E s) D), (total_by_copies g (E (s - 1)) D);
      try assumption; try (intros r R; apply I; auto).
    rewrite <- total_sub. apply total_ext. intros r _. rewrite X by assumption. lia.
  Qed.

  (** The running sum of an aggregate such as COUNT or SUM: the state before the window, and what the deltas add. *)
  Theorem running_sum t0 (d : delta T) E (g : T -> Z) from n : exact t0 d E -> t0 <= from ->
    total g (E (from + Z.of_nat n - 1)) =
    total g (E (from - 1)) + total (fun u => weighted g (d u)) (window from (from + Z.of_nat n)).
  Proof.
    intros X B. unfold window. replace (Z.to_nat (from + Z.of_nat n - from)) with n by lia.
    induction n as [| n IH]; [simpl; rewrite Z.add_0_r; lia |].
    rewrite instants_snoc, total_app, Z.add_assoc, <- IH. simpl.
    rewrite (linear t0 d E) by (assumption || lia).
    replace (from + Z.pos (Pos.of_succ_nat n) - 1) with (from + Z.of_nat n) by lia. lia.
  Qed.
End Linear.

(** ** Tables and constant rows: +1 for each row that begins, -1 for each that ends *)
Section DeltaOfTables.
  Context {T : Type} `{Row T}.

  Definition each (n : Z) (rows : list T) : list (T * Z) := map (fun r => (r, n)) rows.

  Lemma amount_each n r rows : amount r (each n rows) = n * copies r rows.
  Proof.
    unfold amount, each, copies. rewrite total_map, <- total_scale. apply total_ext. intros x _. simpl. lia.
  Qed.

  Lemma amount_events r begun ended : amount r (each 1 begun ++ each (-1) ended) = copies r begun - copies r ended.
  Proof. rewrite amount_app, !amount_each. lia. Qed.

  Definition delta_of_events (E : relation T) : delta T := fun s => each 1 (starts E s) ++ each (-1) (ends E s).

  Theorem scan_delta t0 (stored : list (life T)) :
    (forall x, In x stored -> nonempty x /\ t0 <= start x) ->
    exact t0 (delta_of_events (scan stored)) (at_instant (scan stored)).
  Proof.
    intros P. apply exact_steps. split.
    - intros s r L. apply copies_not_in. simpl. rewrite in_map_iff. intros [x [_ I]].
      apply filter_In in I as [I A]. apply alive_spec in A as [A _]. destruct (P x I). lia.
    - intros s r L. unfold delta_of_events. rewrite amount_events. simpl.
      rewrite !copies_map, !total_filter. induction stored as [| x stored IH]; simpl; [reflexivity |].
      specialize (IH (fun y I => P y (or_intror I))). destruct (P x (or_introl eq_refl)) as [N _].
      enough ((if starts_at s x then one_if (value x) r else 0) - (if ends_at s x then one_if (value x) r else 0) =
        (if alive s x then one_if (value x) r else 0) - (if alive (s - 1) x then one_if (value x) r else 0)) by lia.
      clear IH. unfold starts_at, ends_at, alive, nonempty in *. destruct (end_ x) as [e |].
      + destruct (Z.eqb_spec (start x) s), (Z.eqb_spec e s), (Z.leb_spec (start x) s), (Z.leb_spec (start x) (s - 1)),
          (Z.ltb_spec s e), (Z.ltb_spec (s - 1) e); simpl; lia.
      + destruct (Z.eqb_spec (start x) s), (Z.leb_spec (start x) s), (Z.leb_spec (start x) (s - 1)); simpl; lia.
  Qed.

  Lemma filter_none {A} (l : list A) : filter (fun _ => false) l = [].
  Proof. now induction l. Qed.

  Theorem scan_append_only_delta t0 (stored : list (T * time)) :
    (forall x, In x stored -> t0 <= snd x) ->
    exact t0 (delta_of_events (append_only stored)) (at_instant (append_only stored)).
  Proof.
    intros P. pose proof (scan_delta t0 (kept stored)) as S.
    assert (Q : forall x, In x (kept stored) -> nonempty x /\ t0 <= start x).
    { intros x I. apply in_map_iff in I as [y [<- I]]. split; [exact Logic.I | now apply P]. }
    specialize (S Q). destruct (append_only_is_scan stored) as [A _]. intros s r. rewrite <- A, <- S.
    unfold sum. apply total_ext. intros u _. unfold delta_of_events. rewrite !amount_events. simpl.
    rewrite (values_of_kept _ (fun x => snd x =? u)) by reflexivity.
    rewrite (values_of_kept (ends_at u) (fun _ => false)) by reflexivity.
    now rewrite filter_none.
  Qed.

  Theorem values_delta t0 (rows : list T) : exact t0 (delta_of_events (values t0 rows)) (at_instant (values t0 rows)).
  Proof.
    apply exact_steps. split; intros s r L; simpl.
    - destruct (Z.leb_spec t0 s); [lia | reflexivity].
    - unfold delta_of_events. rewrite amount_events. simpl. rewrite copies_nil.
      destruct (Z.eqb_spec t0 s), (Z.leb_spec t0 s), (Z.leb_spec t0 (s - 1)); rewrite ?copies_nil; lia.
  Qed.
End DeltaOfTables.

(** ** Δ(π A) = π ΔA *)
Section DeltaOfProject.
  Context {T U : Type} `{Row T} `{Row U}.

  Definition delta_project (f : T -> U) (d : delta T) : delta U := fun s => map (fun x => (f (fst x), snd x)) (d s).

  Theorem project_delta t0 f d (A : relation T) :
    exact t0 d (at_instant A) -> exact t0 (delta_project f d) (at_instant (project f A)).
  Proof.
    intros X. pose proof X as [Z S]%exact_steps. apply exact_steps. split; intros s v L; simpl.
    - rewrite copies_map, (empty_by_copies (at_instant A s)); [reflexivity | auto].
    - unfold amount, delta_project. rewrite total_map, !copies_map. simpl.
      exact (linear t0 d (at_instant A) (fun r => one_if (f r) v) s X L).
  Qed.
End DeltaOfProject.

(** ** Δ(A ∪ B) = ΔA ∪ ΔB for UNION ALL *)
Section DeltaOfUnion.
  Context {T : Type} `{Row T}.

  Definition delta_union (d e : delta T) : delta T := fun s => d s ++ e s.

  Theorem union_delta t0 d e (A B : relation T) : exact t0 d (at_instant A) -> exact t0 e (at_instant B) ->
    exact t0 (delta_union d e) (at_instant (union A B)).
  Proof.
    intros [ZA SA]%exact_steps [ZB SB]%exact_steps. apply exact_steps. unfold delta_union.
    split; intros s r L; simpl; rewrite !copies_app.
    - rewrite ZA, ZB by assumption. reflexivity.
    - rewrite amount_app, SA, SB by assumption. lia.
  Qed.
End DeltaOfUnion.

(** ** Δ(A ⋈ B) = ΔA ⋈ at(B, s) ∪ at(A, s⁻) ⋈ ΔB

    With at(A, s) in the second part, two rows that begin at one instant would be counted twice. *)
Section DeltaOfJoin.
  Context {T U : Type} `{Row T} `{Row U}.

  Definition delta_join (d : delta T) (e : delta U) (A : relation T) (B : relation U) : delta (T * U) := fun s =>
    map (fun x => ((fst (fst x), snd x), snd (fst x))) (list_prod (d s) (at_instant B s)) ++
    map (fun x => ((fst x, fst (snd x)), snd (snd x))) (list_prod (at_instant A (s - 1)) (e s)).

  Lemma total_product {A B} (g : A -> Z) (h : B -> Z) l m :
    total (fun x => g (fst x) * h (snd x)) (list_prod l m) = total g l * total h m.
  Proof.
    induction l as [| x l IH]; simpl; [reflexivity |]. rewrite total_app, total_map, IH. simpl. rewrite total_scale.
    lia.
  Qed.

  Theorem join_delta t0 d e (A : relation T) (B : relation U) :
    exact t0 d (at_instant A) -> exact t0 e (at_instant B) ->
    exact t0 (delta_join d e A B) (at_instant (join A B)).
  Proof.
    intros [ZA SA]%exact_steps [ZB SB]%exact_steps. apply exact_steps. split; intros s [a b] L; simpl.
    - rewrite copies_product, ZA by assumption. reflexivity.
    - unfold delta_join. rewrite amount_app, !copies_product. unfold amount. rewrite !total_map. simpl.
      rewrite (total_ext _ (fun x => (one_if (fst (fst x)) a * snd (fst x)) * one_if (snd x) b))
        by (intros [[x n] y] _; simpl; rewrite one_if_pair; lia).
      rewrite (total_product (fun x => one_if (fst x) a * snd x) (fun y => one_if y b)).
      rewrite (total_ext (fun x => one_if (fst x, fst (snd x)) (a, b) * snd (snd x))
          (fun x => one_if (fst x) a * (one_if (fst (snd x)) b * snd (snd x))))
        by (intros [x [y n]] _; simpl; rewrite one_if_pair; lia).
      rewrite (total_product (fun x => one_if x a) (fun y => one_if (fst y) b * snd y)).
      change (amount a (d s) * copies b (at_instant B s) + copies a (at_instant A (s - 1)) * amount b (e s) =
        copies a (at_instant A s) * copies b (at_instant B s) -
        copies a (at_instant A (s - 1)) * copies b (at_instant B (s - 1))).
      rewrite SA, SB by assumption. ring.
  Qed.
End DeltaOfJoin.

(** ** Δ(σp A) = σ at(p, s) ΔA ∪ at(A, s⁻) ⋈ Δp

    Δp is +1 where the condition turns true and -1 where it turns false.  The candidates are the events of [starts] and
    [ends].  With [not_exists body] as the condition this is the rule of A ▷ B, and with [exists_ body] that of A ⋉ B:
    several events of blockers at one instant still give one delta. *)
Section DeltaOfSelect.
  Context {T : Type} `{Row T}.

  Definition truth (b : bool) : Z := if b then 1 else 0.

  Definition delta_condition (p : predicate) (s : time) : Z :=
    if turns_true p s || turns_false p s then truth (holds p s) - truth (holds p (s - 1)) else 0.

  Lemma delta_condition_spec p s : lawful_predicate p ->
    delta_condition p s = truth (holds p s) - truth (holds p (s - 1)).
  Proof.
    intros P. unfold delta_condition. pose proof (true_complete p P s). pose proof (false_complete p P s).
    destruct (holds p s), (holds p (s - 1)), (turns_true p s), (turns_false p s); simpl; intuition congruence.
  Qed.

  Definition delta_select (d : delta T) (A : relation T) (p : T -> predicate) : delta T := fun s =>
    filter (fun x => holds (p (fst x)) s) (d s) ++
    map (fun r => (r, delta_condition (p r) s))
      (filter (fun r => turns_true (p r) s || turns_false (p r) s) (at_instant A (s - 1))).

  Theorem select_delta t0 d (A : relation T) p : exact t0 d (at_instant A) -> (forall r, lawful_predicate (p r)) ->
    exact t0 (delta_select d A p) (at_instant (select A p)).
  Proof.
    intros [ZA SA]%exact_steps P. apply exact_steps. split; intros s r L; simpl; rewrite !copies_filter.
    - rewrite ZA by assumption. now destruct (holds (p r) s).
    - unfold delta_select. rewrite amount_app.
      assert (First : amount r (filter (fun x => holds (p (fst x)) s) (d s)) =
        truth (holds (p r) s) * amount r (d s)).
      { unfold amount. rewrite total_filter, <- total_scale. apply total_ext. intros [x n] _. simpl.
        destruct (same x r) as [-> | N]; [destruct (holds (p r) s); unfold truth; lia |].
        rewrite one_if_other by assumption. destruct (holds (p x) s), (holds (p r) s); unfold truth; lia. }
      assert (Second : amount r (map (fun r => (r, delta_condition (p r) s))
          (filter (fun r => turns_true (p r) s || turns_false (p r) s) (at_instant A (s - 1)))) =
        delta_condition (p r) s * copies r (at_instant A (s - 1))).
      { unfold amount, copies. rewrite total_map, total_filter, <- total_scale. apply total_ext. intros x _. simpl.
        destruct (same x r) as [-> | N].
        - rewrite one_if_same. unfold delta_condition. destruct (turns_true (p r) s || turns_false (p r) s); lia.
        - rewrite one_if_other by assumption. destruct (turns_true (p x) s || turns_false (p x) s); lia. }
      rewrite First, Second, delta_condition_spec, SA by auto.
      unfold truth. destruct (holds (p r) s), (holds (p r) (s - 1)); lia.
  Qed.

  (** A ▷ B with a correlated body. *)
  Theorem not_exists_delta {U} `{Row U} t0 d (A : relation T) (body : T -> relation U) :
    exact t0 d (at_instant A) -> (forall r, lawful (body r)) ->
    exact t0 (delta_select d A (fun r => not_exists (body r))) (at_instant (select A (fun r => not_exists (body r)))).
  Proof. intros X L. apply select_delta; [assumption |]. intros r. now apply not_exists_rule. Qed.

  Theorem exists_delta {U} `{Row U} t0 d (A : relation T) (body : T -> relation U) :
    exact t0 d (at_instant A) -> (forall r, lawful (body r)) ->
    exact t0 (delta_select d A (fun r => exists_ (body r))) (at_instant (select A (fun r => exists_ (body r)))).
  Proof. intros X L. apply select_delta; [assumption |]. intros r. now apply exists_rule. Qed.
End DeltaOfSelect.
