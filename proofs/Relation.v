(** Relations as functions of discrete time, and what the three functions of the derivation must satisfy.

    Time is an integer: microseconds in Weft.  The instant just before [s], which the design writes s⁻, is [s - 1].

    A relation has its rows at each instant, and the events that the rules of the derivation compute for it.  An
    operator is a function on relations; [select], [join] and so on are in the files of their topics.  A condition
    that depends on a row is a function of that row, so a correlated subquery is a function that contains the outer
    row. *)

From Coq Require Import ZArith List Bool Lia.
From Weft Require Import Multisets.
Import ListNotations.
Open Scope Z_scope.

Definition time := Z.

Record relation (T : Type) : Type := Relation {
  (** at(E, s): the rows at the instant [s], duplicates included. *)
  at_instant : time -> list T;
  (** starts(E): the rows of the events at [s].  A rule may name a row twice, or a row that was there before. *)
  starts : time -> list T;
  (** ends(E): the same for rows that end at [s]. *)
  ends : time -> list T
}.

Arguments Relation {T}.
Arguments at_instant {T}.
Arguments starts {T}.
Arguments ends {T}.

(** A condition of a WHERE clause for one row.  It is true or not true: lowering has removed the unknown truth value. *)
Record predicate : Type := Predicate {
  holds : time -> bool;
  turns_true : time -> bool;   (* starts(p) has an event at this instant *)
  turns_false : time -> bool   (* ends(p) has an event at this instant *)
}.

(** ** The law of [starts] and [ends]

    Soundness: a row of an event at [s] is in the relation at [s] (for [ends]: just before [s]).

    Completeness: where a row is in the relation more often than just before, there is an event; where it is in the
    relation less often, too.  This is stronger than "every entry and every exit is an event" ([entry_is_event],
    [exit_is_event] below), and it is what aggregates need: COUNT changes when a second equal row begins. *)
Record lawful {T} `{Row T} (E : relation T) : Prop := Lawful {
  starts_sound : forall s r, In r (starts E s) -> In r (at_instant E s);
  starts_complete : forall s r, copies r (at_instant E (s - 1)) < copies r (at_instant E s) -> In r (starts E s);
  ends_sound : forall s r, In r (ends E s) -> In r (at_instant E (s - 1));
  ends_complete : forall s r, copies r (at_instant E s) < copies r (at_instant E (s - 1)) -> In r (ends E s)
}.

Record lawful_predicate (p : predicate) : Prop := LawfulPredicate {
  true_sound : forall s, turns_true p s = true -> holds p s = true;
  true_complete : forall s, holds p (s - 1) = false -> holds p s = true -> turns_true p s = true;
  false_sound : forall s, turns_false p s = true -> holds p (s - 1) = true;
  false_complete : forall s, holds p (s - 1) = true -> holds p s = false -> turns_false p s = true
}.

Section Entries.
  Context {T : Type} `{Row T} (E : relation T) (L : lawful E).

  Theorem entry_is_event s r : In r (at_instant E s) -> ~ In r (at_instant E (s - 1)) -> In r (starts E s).
  Proof.
    rewrite copies_in, copies_not_in. intros P Z. apply (starts_complete E L). lia.
  Qed.

  Theorem exit_is_event s r : In r (at_instant E (s - 1)) -> ~ In r (at_instant E s) -> In r (ends E s).
  Proof.
    rewrite copies_in, copies_not_in. intros P Z. apply (ends_complete E L). lia.
  Qed.
End Entries.

(** Two relations that nobody can tell apart. *)
Definition equivalent {T} `{Row T} (E F : relation T) : Prop :=
  (forall s r, copies r (at_instant E s) = copies r (at_instant F s)) /\
  (forall s r, In r (starts E s) <-> In r (starts F s)) /\
  (forall s r, In r (ends E s) <-> In r (ends F s)).

Lemma equivalent_lawful {T} `{Row T} (E F : relation T) : equivalent E F -> lawful E -> lawful F.
Proof.
  intros [A [S D]] L. split; intros s r.
  - rewrite <- S, (copies_in r (at_instant F _)), <- A, <- copies_in. apply (starts_sound E L).
  - rewrite <- S, <- !A. apply (starts_complete E L).
  - rewrite <- D, (copies_in r (at_instant F _)), <- A, <- copies_in. apply (ends_sound E L).
  - rewrite <- D, <- !A. apply (ends_complete E L).
Qed.
