(** The conditions of WHERE.  (derivation/replay/plain.py, connectives.py, thresholds.py, exists.py, not_exists.py)

    Each condition has the functions that Python registers for it: [holds] is [at], [turns_true] is [starts],
    [turns_false] is [ends]. *)

From Coq Require Import ZArith List Bool Lia.
From Weft Require Import Multisets Relation.
Import ListNotations.
Open Scope Z_scope.

(** ** A condition without time *)

Definition plain (b : bool) : predicate := Predicate (fun _ => b) (fun _ => false) (fun _ => false).

Theorem plain_rule b : lawful_predicate (plain b).
Proof. split; simpl; congruence. Qed.

(** ** p ∧ q and p ∨ q *)

Definition both (p q : predicate) : predicate := {|
  holds s := holds p s && holds q s;
  turns_true s := turns_true p s && holds q s || holds p s && turns_true q s;
  turns_false s := turns_false p s && holds q (s - 1) || holds p (s - 1) && turns_false q s
|}.

Definition either (p q : predicate) : predicate := {|
  holds s := holds p s || holds q s;
  turns_true s := turns_true p s || turns_true q s;
  turns_false s := turns_false p s || turns_false q s
|}.

(** Python's And and Or take any number of items. *)
Definition conjunction (items : list predicate) : predicate := fold_right both (plain true) items.
Definition disjunction (items : list predicate) : predicate := fold_right either (plain false) items.

Section Connectives.
  Context (p q : predicate) (P : lawful_predicate p) (Q : lawful_predicate q).

  Theorem and_rule : lawful_predicate (both p q).
  Proof.
    split; simpl; intros s; rewrite ?orb_true_iff, ?andb_true_iff, ?andb_false_iff.
    - intros [[A B] | [A B]]; split; auto using (true_sound p P), (true_sound q Q).
    - intros [B | B] [N M]; [left | right]; auto using (true_complete p P), (true_complete q Q).
    - intros [[A B] | [A B]]; split; auto using (false_sound p P), (false_sound q Q).
    - intros [N M] [B | B]; [left | right]; auto using (false_complete p P), (false_complete q Q).
  Qed.

  Theorem or_rule : lawful_predicate (either p q).
  Proof.
    split; simpl; intros s; rewrite ?orb_true_iff, ?orb_false_iff.
    - intros [A | A]; auto using (true_sound p P), (true_sound q Q).
    - intros [M N] [A | A]; auto using (true_complete p P), (true_complete q Q).
    - intros [A | A]; auto using (false_sound p P), (false_sound q Q).
    - intros [A | A] [M N]; auto using (false_complete p P), (false_complete q Q).
  Qed.
End Connectives.

Theorem conjunction_rule items : Forall lawful_predicate items -> lawful_predicate (conjunction items).
Proof. induction 1; simpl; [apply plain_rule | now apply and_rule]. Qed.

Theorem disjunction_rule items : Forall lawful_predicate items -> lawful_predicate (disjunction items).
Proof. induction 1; simpl; [apply plain_rule | now apply or_rule]. Qed.

(** ** NOW >= c and NOW < d.  A threshold that is NULL ([None]) is never reached, and the condition is never true. *)

Definition now_from (c : option time) : predicate := match c with
  | None => plain false
  | Some c => {| holds s := c <=? s; turns_true s := c =? s; turns_false _ := false |}
  end.

Definition now_before (d : option time) : predicate := match d with
  | None => plain false
  | Some d => {| holds s := s <? d; turns_true _ := false; turns_false s := d =? s |}
  end.

Theorem now_from_rule c : lawful_predicate (now_from c).
Proof. destruct c as [c |]; [| apply plain_rule]. split; simpl; intros s; try discriminate; lia. Qed.

Theorem now_before_rule d : lawful_predicate (now_before d).
Proof. destruct d as [d |]; [| apply plain_rule]. split; simpl; intros s; try discriminate; lia. Qed.

(** A condition on NOW that is not monotone (months, changes of daylight saving) is judged at the instants in [turns].
    They must contain each instant at which the condition changes; they may contain others. *)
Definition calendar (judged : time -> bool) (turns : list time) : predicate := {|
  holds := judged;
  turns_true s := existsb (Z.eqb s) turns && judged s && negb (judged (s - 1));
  turns_false s := existsb (Z.eqb s) turns && judged (s - 1) && negb (judged s)
|}.

Theorem calendar_rule judged turns :
  (forall s, judged (s - 1) <> judged s -> In s turns) -> lawful_predicate (calendar judged turns).
Proof.
  intros C.
  assert (F : forall s, judged (s - 1) <> judged s -> existsb (Z.eqb s) turns = true)
    by (intros s N; apply existsb_exists; exists s; split; [now apply C | apply Z.eqb_refl]).
  split; simpl; intros s; specialize (F s); destruct (judged s), (judged (s - 1)), (existsb (Z.eqb s) turns);
    simpl; intuition congruence.
Qed.

(** ** EXISTS and NOT EXISTS *)

Definition empty {T} (l : list T) : bool := match l with [] => true | _ => false end.

Lemma empty_spec {T} (l : list T) : empty l = true <-> l = [].
Proof. now destruct l. Qed.

Lemma nonempty_spec {T} (l : list T) : empty l = false <-> exists r, In r l.
Proof.
  destruct l as [| x l]; simpl; split; intros X; try easy; [destruct X as [_ []] | exists x; now left].
Qed.

Section Subquery.
  Context {T : Type} `{Row T}.

  Definition exists_ (body : relation T) : predicate := {|
    holds s := negb (empty (at_instant body s));
    turns_true s := negb (empty (starts body s));
    turns_false s := negb (empty (ends body s))
  |}.

  (** starts(NOT EXISTS B) = ends(B) ▷ at(B, s), and ends(NOT EXISTS B) = starts(B) ▷ at(B, s⁻). *)
  Definition not_exists (body : relation T) : predicate := {|
    holds s := empty (at_instant body s);
    turns_true s := negb (empty (ends body s)) && empty (at_instant body s);
    turns_false s := negb (empty (starts body s)) && empty (at_instant body (s - 1))
  |}.

  Lemma first_row_is_event E s : lawful E ->
    empty (at_instant E (s - 1)) = true -> empty (at_instant E s) = false -> empty (starts E s) = false.
  Proof.
    intros L B A. apply empty_spec in B. apply nonempty_spec in A as [r A]. apply nonempty_spec. exists r.
    apply (entry_is_event E L); [assumption |]. rewrite B. easy.
  Qed.

  Lemma last_row_is_event E s : lawful E ->
    empty (at_instant E (s - 1)) = false -> empty (at_instant E s) = true -> empty (ends E s) = false.
  Proof.
    intros L B A. apply empty_spec in A. apply nonempty_spec in B as [r B]. apply nonempty_spec. exists r.
    apply (exit_is_event E L); [assumption |]. rewrite A. easy.
  Qed.

  Lemma event_is_in E s : lawful E -> empty (starts E s) = false -> empty (at_instant E s) = false.
  Proof. rewrite !nonempty_spec. intros L [r I]. exists r. now apply (starts_sound E L). Qed.

  Lemma event_was_in E s : lawful E -> empty (ends E s) = false -> empty (at_instant E (s - 1)) = false.
  Proof. rewrite !nonempty_spec. intros L [r I]. exists r. now apply (ends_sound E L). Qed.

  Theorem exists_rule body : lawful body -> lawful_predicate (exists_ body).
  Proof.
    intros L. split; simpl; intros s; rewrite ?negb_true_iff, ?negb_false_iff.
    - apply event_is_in, L.
    - apply first_row_is_event, L.
    - apply event_was_in, L.
    - apply last_row_is_event, L.
  Qed.

  Theorem not_exists_rule body : lawful body -> lawful_predicate (not_exists body).
  Proof.
    intros L. split; simpl; intros s; rewrite ?andb_true_iff, ?negb_true_iff.
    - easy.
    - intros B A. split; [now apply last_row_is_event | assumption].
    - easy.
    - intros B A. split; [now apply first_row_is_event | assumption].
  Qed.
End Subquery.
