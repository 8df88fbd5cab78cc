(** Q^M, the minimum bounding monotone query: what rises, what falls, and the closed form.  (derivation/monotone.py)

    A relation *rises* if its rows stay, and a condition rises if it stays true.  A condition *falls* if it stays false
    once it is false. *)

From Coq Require Import ZArith List Bool Lia.
From Weft Require Import Multisets Relation Tables Predicates Operators.
Import ListNotations.
Open Scope Z_scope.

Definition rises {T} (E : relation T) : Prop := forall s u r, s <= u -> In r (at_instant E s) -> In r (at_instant E u).
Definition stays_true (p : predicate) : Prop := forall s u, s <= u -> holds p s = true -> holds p u = true.
Definition stays_false (p : predicate) : Prop := forall s u, s <= u -> holds p u = true -> holds p s = true.

(** ** is_monotone: each case of the Python function *)

Theorem append_only_rises {T} `{Row T} (stored : list (T * time)) : rises (append_only stored).
Proof.
  intros s u r S. simpl. rewrite !in_map_iff. intros [x [E I]]. apply filter_In in I as [I B].
  exists x. split; [assumption |]. apply filter_In. split; [assumption |]. lia.
Qed.

Theorem plain_stays b : stays_true (plain b) /\ stays_false (plain b).
Proof. split; intros s u _; trivial. Qed.

Theorem now_from_stays_true c : stays_true (now_from c).
Proof. destruct c; intros s u S; simpl; [lia | trivial]. Qed.

Theorem now_before_stays_false d : stays_false (now_before d).
Proof. destruct d; intros s u S; simpl; [lia | trivial]. Qed.

Theorem and_stays_true p q : stays_true p -> stays_true q -> stays_true (both p q).
Proof. intros P Q s u S. simpl. rewrite !andb_true_iff. firstorder. Qed.

Theorem or_stays_true p q : stays_true p -> stays_true q -> stays_true (either p q).
Proof. intros P Q s u S. simpl. rewrite !orb_true_iff. firstorder. Qed.

Theorem and_stays_false p q : stays_false p -> stays_false q -> stays_false (both p q).
Proof. intros P Q s u S. simpl. rewrite !andb_true_iff. firstorder. Qed.

Theorem or_stays_false p q : stays_false p -> stays_false q -> stays_false (either p q).
Proof. intros P Q s u S. simpl. rewrite !orb_true_iff. firstorder. Qed.

Theorem exists_stays_true {T} `{Row T} (body : relation T) : rises body -> stays_true (exists_ body).
Proof.
  intros R s u S. simpl. rewrite !negb_true_iff, !nonempty_spec. intros [r I]. exists r. now apply (R s u).
Qed.

(** Over a rising body, NOT EXISTS never becomes true again.  Over any other body it can: see [reply_example] below. *)
Theorem not_exists_stays_false {T} `{Row T} (body : relation T) : rises body -> stays_false (not_exists body).
Proof.
  intros R s u S. simpl. rewrite <- !not_false_iff_true, !nonempty_spec. intros N [r I]. apply N. exists r.
  now apply (R s u).
Qed.

Theorem select_rises {T} `{Row T} (A : relation T) p : rises A -> (forall r, stays_true (p r)) -> rises (select A p).
Proof.
  intros R P s u r S. simpl. rewrite !filter_In. intros [I B]. split; [now apply (R s u) | now apply (P r s u)].
Qed.

Theorem join_rises {T U} `{Row T} `{Row U} (A : relation T) (B : relation U) : rises A -> rises B -> rises (join A B).
Proof.
  intros RA RB s u [a b] S. simpl. rewrite !in_prod_iff. intros [I J]. split; [now apply (RA s u) | now apply (RB s u)].
Qed.

Theorem project_rises {T U} `{Row T} `{Row U} (f : T -> U) (A : relation T) : rises A -> rises (project f A).
Proof.
  intros R s u v S. simpl. rewrite !in_map_iff. intros [r [E I]]. exists r. split; [assumption | now apply (R s u)].
Qed.

Theorem union_rises {T} `{Row T} (A B : relation T) : rises A -> rises B -> rises (union A B).
Proof. intros RA RB s u r S. simpl. rewrite !in_app_iff. firstorder. Qed.

Theorem distinct_rises {T} `{Row T} (A : relation T) : rises A -> rises (distinct A).
Proof. intros R s u r S. simpl. rewrite !nodup_In. now apply R. Qed.

(** ** The closed form *)

(** A join of append-only tables is an append-only table of combinations.  A combination begins with its latest row. *)
Definition combinations {T U} (a : list (T * time)) (b : list (U * time)) : list ((T * U) * time) :=
  map (fun c => ((fst (fst c), fst (snd c)), Z.max (snd (fst c)) (snd (snd c)))) (list_prod a b).

Theorem join_of_append_only {T U} `{Row T} `{Row U} (a : list (T * time)) (b : list (U * time)) s :
  at_instant (join (append_only a) (append_only b)) s = at_instant (append_only (combinations a b)) s.
Proof.
  simpl. unfold combinations. induction a as [| [x t] a IH]; simpl; [reflexivity |].
  rewrite map_app, filter_app, map_app.
  etransitivity; [| apply (f_equal2 (@app _) eq_refl IH)]. clear IH. rewrite map_map. simpl.
  assert (R : map fst (filter (fun c => snd c <=? s) (map (fun y => ((x, fst y), Z.max t (snd y))) b)) =
    if t <=? s then map (pair x) (map fst (filter (fun y => snd y <=? s) b)) else []).
  { induction b as [| [y u] b IH]; simpl; [now destruct (t <=? s) |].
    destruct (Z.leb_spec t s), (Z.leb_spec u s), (Z.leb_spec (Z.max t u) s); simpl; rewrite ?IH; reflexivity || lia. }
  etransitivity; [| apply (f_equal2 (@app _) (eq_sym R) eq_refl)]. destruct (t <=? s); reflexivity.
Qed.

(** [_expand] joins the body of an EXISTS to its block.  The answer has the same rows, as a set. *)
Theorem exists_as_join {T U} `{Row T} `{Row U} (A : relation T) (B : relation U) (p : T -> U -> predicate) s r :
  In r (at_instant (select A (fun a => exists_ (select B (p a)))) s) <->
  In r (at_instant (project fst (select (join A B) (fun c => p (fst c) (snd c)))) s).
Proof.
  simpl. rewrite filter_In, negb_true_iff, nonempty_spec, in_map_iff. split.
  - intros [I [b J]]. apply filter_In in J as [J P]. exists (r, b). split; [reflexivity |].
    rewrite filter_In, in_prod_iff. auto.
  - intros [[a b] [<- I]]. rewrite filter_In, in_prod_iff in I. destruct I as [[I J] P]. split; [assumption |].
    exists b. now apply filter_In.
Qed.

(** [_alternatives] splits an OR into blocks.  Their union has the same rows, as a set. *)
Theorem or_as_blocks {T} `{Row T} (A : relation T) (p q : T -> predicate) s r :
  In r (at_instant (select A (fun a => either (p a) (q a))) s) <->
  In r (at_instant (union (select A p) (select A q)) s).
Proof. simpl. rewrite in_app_iff, !filter_In, orb_true_iff. tauto. Qed.

Section ClosedForm.
  Context {T : Type} `{Row T}.

  (** GREATEST(first, …).  None if a threshold is NULL, because a condition with a NULL threshold is never true. *)
  Fixpoint greatest (first : time) (thresholds : list (option time)) : option time := match thresholds with
    | [] => Some first
    | None :: _ => None
    | Some c :: rest => greatest (Z.max first c) rest
    end.

  Lemma greatest_spec thresholds s : forall first,
    (first <=? s) && holds (conjunction (map now_from thresholds)) s = true <->
    exists g, greatest first thresholds = Some g /\ g <= s.
  Proof.
    induction thresholds as [| [c |] rest IH]; intros first; simpl.
    - rewrite andb_true_r, Z.leb_le. split; [eauto |]. now intros [g [[= <-] B]].
    - rewrite <- IH, !andb_true_iff, !Z.leb_le. intuition lia.
    - rewrite andb_false_r. split; [easy |]. now intros [g [? _]].
  Qed.

  (** A block over the combinations of rows of append-only tables: the conditions NOW >= c, and all others, which
      [is_monotone] and [_obstacle] of the Python module have found to stay false once they are false. *)
  Context (stored : list (T * time)) (thresholds : T -> list (option time)) (other : T -> predicate).
  Hypothesis falls : forall r, stays_false (other r).

  Definition block : relation T :=
    select (append_only stored) (fun r => both (conjunction (map now_from (thresholds r))) (other r)).

  (** The events of the closed form: each combination at GREATEST(c_1 … c_n), if the other conditions hold then. *)
  Definition closed_form : list (T * time) :=
    flat_map (fun x => match greatest (snd x) (thresholds (fst x)) with
      | Some g => if holds (other (fst x)) g then [(fst x, g)] else []
      | None => []
      end) stored.

  Lemma closed_form_spec r g : In (r, g) closed_form <->
    exists first, In (r, first) stored /\ greatest first (thresholds r) = Some g /\ holds (other r) g = true.
  Proof.
    unfold closed_form. rewrite in_flat_map. split.
    - intros [[x first] [I G]]. simpl in G. destruct (greatest first (thresholds x)) as [h |] eqn:E; [| easy].
      destruct (holds (other x) h) eqn:P; [| easy]. destruct G as [[= <- <-] | []]. eauto.
    - intros [first [I [E P]]]. exists (r, first). simpl. rewrite E, P. split; [assumption | now left].
  Qed.

  (** Each event holds at its instant, and whatever is in the answer at [s] has an event at [s] or before.  So up to any
      [t] the closed form has exactly the rows that were ever in the answer, and the earliest event of a row is its
      first instant. *)
  Theorem minimum_bounding_rule :
    (forall r g, In (r, g) closed_form -> In r (at_instant block g)) /\
    (forall r s, In r (at_instant block s) -> exists g, g <= s /\ In (r, g) closed_form).
  Proof.
    split.
    - intros r g C. apply closed_form_spec in C as [first [I [E P]]].
      assert (G : (first <=? g) && holds (conjunction (map now_from (thresholds r))) g = true)
        by (apply greatest_spec; exists g; split; [assumption | lia]).
      apply andb_true_iff in G as [B N]. simpl. rewrite filter_In, N, P. split; [| reflexivity].
      apply in_map_iff. exists (r, first). split; [reflexivity |]. now apply filter_In.
    - intros r s I. simpl in I. rewrite filter_In, andb_true_iff, in_map_iff in I.
      destruct I as [[[x first] [<- I]] [N P]]. apply filter_In in I as [I B]. simpl in *.
      destruct (proj1 (greatest_spec (thresholds x) s first)) as [g [E G]]; [now rewrite B, N |].
      exists g. split; [assumption |]. apply closed_form_spec. exists first. split; [assumption |].
      split; [assumption |].
      now apply (falls x g s).
  Qed.

  Theorem minimum_bounding_rows t r :
    (exists s, s < t /\ In r (at_instant block s)) <-> (exists g, g < t /\ In (r, g) closed_form).
  Proof.
    destruct minimum_bounding_rule as [S C]. split.
    - intros [s [B I]]. apply C in I as [g [G I]]. exists g. split; [lia | assumption].
    - intros [g [B I]]. exists g. split; [assumption | now apply S].
  Qed.
End ClosedForm.

(** The docstring's example of a query without a closed form: a message on day 1, a reply on day 0, and "no reply in the
    last 14 days".  GREATEST is day 1, at which the answer is empty; the message enters the answer on day 14. *)
Definition unanswered : relation Z :=
  select (append_only [(7, 1)]) (fun _ => not_exists (select (append_only [(8, 0)]) (fun _ => now_before (Some 14)))).

Example reply_example : map (at_instant unanswered) [1; 13; 14] = [[]; []; [7]].
Proof. reflexivity. Qed.
