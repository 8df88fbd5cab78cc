(** WITH RECURSIVE, round by round.

    [first s r] says that [r] is one of the first rows at the instant [s].  [step s q r] says that [r] follows from the
    row [q] of the recursion, and from rows of other tables that are alive at [s].  The step is linear: it has one [q].
    It is monotone, because it does not mention what the recursion lacks.

    The program computes rounds over rows with periods.  A row with periods is a predicate of instants, so a round is a
    predicate of instants and rows: the intersection of periods is a conjunction, and the subtraction of periods is a
    negation, both at each instant. *)

From Coq Require Import List Lia.
Import ListNotations.

Section Recursion.
  Context {Instant K : Type}.
  Variable first : Instant -> K -> Prop.
  Variable step : Instant -> K -> K -> Prop.

  (** The meaning at an instant: the least set of rows with the first rows that is closed under the step. *)
  Inductive recursion (s : Instant) : K -> Prop :=
  | begins r : first s r -> recursion s r
  | follows q r : recursion s q -> step s q r -> recursion s r.

  Theorem recursion_is_least s (rows : K -> Prop) :
    (forall r, first s r -> rows r) -> (forall q r, rows q -> step s q r -> rows r) -> forall r, recursion s r -> rows r.
  Proof. intros F S r D. induction D; eauto. Qed.

  (** What the step makes from the rows of a round. *)
  Definition next (round : Instant -> K -> Prop) s r := exists q, round s q /\ step s q r.

  (** ** UNION: a round has the rows that no earlier round found. *)
  Fixpoint rounds (n : nat) : (Instant -> K -> Prop) * (Instant -> K -> Prop) :=
    match n with
    | O => (first, fun _ _ => False)
    | S n => let (new, before) := rounds n in
             let found s r := before s r \/ new s r in
             ((fun s r => next new s r /\ ~ found s r), found)
    end.

  Definition new n := fst (rounds n).
  Definition before n := snd (rounds n).

  Lemma before_next n s r : before (S n) s r <-> before n s r \/ new n s r.
  Proof. unfold before, new. simpl. destruct (rounds n). reflexivity. Qed.

  Lemma new_next n s r : new (S n) s r <-> next (new n) s r /\ ~ before (S n) s r.
  Proof. unfold before, new. simpl. destruct (rounds n). reflexivity. Qed.

  Lemma before_some n s r : before n s r -> exists m, m < n /\ new m s r.
  Proof.
    induction n as [|n IH].
    - intros [].
    - rewrite before_next. intros [B|N].
      + destruct (IH B) as [m [L N]]. exists m. split; [lia|exact N].
      + exists n. split; [lia|exact N].
  Qed.

  Lemma some_before n m s r : m < n -> new m s r -> before n s r.
  Proof.
    induction n as [|n IH]; [lia|]. intros L N. rewrite before_next.
    destruct (PeanoNat.Nat.eq_dec m n) as [->|D]; [now right|]. left. apply IH; [lia|exact N].
  Qed.

  (** Whether an earlier round found a row can be decided: the program has computed the rounds. *)
  Hypothesis decided : forall n s r, before n s r \/ ~ before n s r.

  (** Law: at every instant, the rows of all rounds are those of the recursion. *)
  Theorem recursion_rule s r : (exists n, new n s r) <-> recursion s r.
  Proof.
    split.
    - intros [n N]. revert r N. induction n as [|n IH]; intros r N.
      + now apply begins.
      + apply new_next in N. destruct N as [[q [N T]] _]. apply (follows s q); auto.
    - intros D. induction D as [r F|q r _ [n N] T].
      + exists 0. exact F.
      + destruct (decided (S n) s r) as [B|B].
        * destruct (before_some _ _ _ B) as [m [_ M]]. now exists m.
        * exists (S n). apply new_next. split; [now exists q|exact B].
  Qed.

  (** A row is new in one round at an instant, so the periods of its rounds do not overlap. *)
  Theorem recursion_round_once n m s r : new n s r -> new m s r -> n = m.
  Proof.
    assert (Z : forall n m, n < m -> new n s r -> ~ new m s r).
    { intros i [|j] L N M; [lia|]. apply new_next in M. destruct M as [_ B]. apply B. now apply (some_before _ i). }
    intros N M. destruct (PeanoNat.Nat.lt_total n m) as [L|[E|L]]; [|exact E|]; exfalso; eapply Z; eauto.
  Qed.

  (** The program may stop after a round that finds nothing. *)
  Theorem recursion_ends n : (forall s r, ~ new n s r) -> forall s r, recursion s r -> before n s r.
  Proof.
    intros E s r D. induction D as [r F|q r _ B T].
    - destruct n as [|n]; [destruct (E s r F)|]. apply (some_before _ 0); [lia|exact F].
    - destruct (before_some _ _ _ B) as [m [L M]].
      destruct (decided (S m) s r) as [C|C].
      + destruct (before_some _ _ _ C) as [i [J I]]. apply (some_before _ i); [lia|exact I].
      + assert (N : new (S m) s r) by (apply new_next; split; [now exists q|exact C]).
        destruct (PeanoNat.Nat.eq_dec (S m) n) as [<-|D].
        * destruct (E s r N).
        * apply (some_before _ (S m)); [lia|exact N].
  Qed.

  (** ** UNION ALL: a round has a row once for each way to derive it in as many steps. *)

  (** A derivation is the list of the rows from the last one back to a first row. *)
  Inductive derivation (s : Instant) : list K -> Prop :=
  | derives_first r : first s r -> derivation s [r]
  | derives_next r q rest : derivation s (q :: rest) -> step s q r -> derivation s (r :: q :: rest).

  Fixpoint passed (n : nat) : Instant -> list K -> Prop :=
    match n with
    | O => fun s way => exists r, way = [r] /\ first s r
    | S n => fun s way => exists r q rest, way = r :: q :: rest /\ passed n s (q :: rest) /\ step s q r
    end.

  (** Law: the ways of all rounds are the derivations, and each is in the round of its length alone. *)
  Theorem recursion_all_rule n s way : passed n s way <-> derivation s way /\ length way = S n.
  Proof.
    revert way. induction n as [|n IH]; intros way; simpl.
    - split.
      + intros [r [-> F]]. split; [now apply derives_first|reflexivity].
      + intros [D L]. destruct D as [r F|]; [now exists r|discriminate L].
    - split.
      + intros [r [q [rest [-> [P T]]]]]. apply IH in P. destruct P as [D L].
        split; [now apply derives_next|simpl in *; lia].
      + intros [D L]. destruct D as [|r q rest D T]; [discriminate L|].
        exists r, q, rest. split; [reflexivity|]. split; [|exact T]. apply IH. split; [exact D|simpl in *; lia].
  Qed.

  (** ** Stored rows: a tick continues the rows at the instant before its window, [b].  [s] is an instant of the window.

      [lasting_first r] says that what makes [r] a first row at [b] is alive throughout the window, and [lasting_step]
      says the same of a step. *)
  Section Continued.
    Variables b s : Instant.
    Variable lasting_first : K -> Prop.
    Variable lasting_step : K -> K -> Prop.
    Hypothesis first_lasts : forall r, first b r -> lasting_first r -> first s r.
    Hypothesis step_lasts : forall q r, step b q r -> lasting_step q r -> step s q r.

    (** The stored rows of which a derivation ends in the window, further rows that the program chooses, and those of
        which a derivation leads through them.  The program chooses what a combination with subqueries gives if a row of
        it or of a subquery begins or ends. *)
    Variable chosen : K -> Prop.
    Inductive touched : K -> Prop :=
    | is_chosen r : chosen r -> touched r
    | ends_first r : first b r -> ~ lasting_first r -> touched r
    | ends_step q r : recursion b q -> step b q r -> ~ lasting_step q r -> touched r
    | follows_touched q r : touched q -> step b q r -> touched r.

    Definition kept r := recursion b r /\ ~ touched r.

    (** The program has computed the rows, and has read the periods, so each of these can be decided. *)
    Hypothesis decided_first : forall r, lasting_first r \/ ~ lasting_first r.
    Hypothesis decided_step : forall q r, lasting_step q r \/ ~ lasting_step q r.
    Hypothesis decided_stored : forall r, recursion b r \/ ~ recursion b r.
    Hypothesis decided_touched : forall r, touched r \/ ~ touched r.

    Lemma first_kept r : first b r -> ~ touched r -> first s r.
    Proof.
      intros F N. destruct (decided_first r) as [L|L]; [now apply first_lasts|]. destruct N. now apply ends_first.
    Qed.

    Lemma step_kept q r : recursion b q -> step b q r -> ~ touched r -> step s q r /\ ~ touched q.
    Proof.
      intros R T N. split.
      - destruct (decided_step q r) as [L|L]; [now apply step_lasts|]. destruct N. now apply (ends_step q).
      - intros D. apply N. now apply (follows_touched q).
    Qed.

    (** A kept row holds throughout the window. *)
    Theorem recursion_kept_rule r : kept r -> recursion s r.
    Proof.
      intros [R N]. induction R as [r F|q r R IH T].
      - apply begins. now apply first_kept.
      - destruct (step_kept q r R T N) as [T' N']. apply (follows s q); auto.
    Qed.

    (** UNION: what was not alive at [b] derives, alone or with kept rows; what was alive at [b] and derives touched rows;
        and what follows from that.  A kept row is not derived again. *)
    Inductive continued : K -> Prop :=
    | enters_first r : first s r -> ~ first b r \/ touched r -> ~ kept r -> continued r
    | enters_step q r : kept q -> step s q r -> ~ step b q r \/ touched r -> ~ kept r -> continued r
    | continues q r : continued q -> step s q r -> ~ kept r -> continued r.

    Lemma kept_or_not r : kept r \/ ~ kept r.
    Proof.
      unfold kept. destruct (decided_stored r), (decided_touched r); tauto.
    Qed.

    Theorem recursion_continued_rule r : recursion s r <-> kept r \/ continued r.
    Proof.
      split.
      - intros D. induction D as [r F|q r _ IH T]; destruct (kept_or_not r) as [P|N]; auto; right.
        + apply enters_first; auto. destruct (decided_touched r) as [D|D]; [now right|left].
          intros F'. apply N. split; [now apply begins|exact D].
        + destruct IH as [P|C]; [|now apply (continues q)].
          apply (enters_step q); auto. destruct (decided_touched r) as [D|D]; [now right|left].
          intros T'. apply N. split; [apply (follows b q); [apply P|exact T']|exact D].
      - intros [P|C]; [now apply recursion_kept_rule|].
        induction C as [r F _ _|q r P T _ _|q r _ IH T _]; [now apply begins| |now apply (follows s q)].
        apply (follows s q); [now apply recursion_kept_rule|exact T].
    Qed.

    (** UNION ALL: the derivations of kept rows, and those that have a step or a first row which was not there at [b], or
        that lead to a touched row. *)
    Definition kept_way way := derivation b way /\ match way with [] => True | r :: _ => ~ touched r end.

    Inductive continued_way : list K -> Prop :=
    | way_first r : first s r -> ~ first b r \/ touched r -> continued_way [r]
    | way_step r q rest :
        kept_way (q :: rest) -> step s q r -> ~ step b q r \/ touched r -> continued_way (r :: q :: rest)
    | way_next r q rest : continued_way (q :: rest) -> step s q r -> continued_way (r :: q :: rest).

    Lemma derived_is_there r rest : derivation b (r :: rest) -> recursion b r.
    Proof.
      revert r. induction rest as [|q rest IH]; intros r D; inversion D; subst; [now apply begins|].
      apply (follows b q); auto.
    Qed.

    Lemma way_before r q rest : kept_way (r :: q :: rest) -> kept_way (q :: rest) /\ step b q r /\ step s q r.
    Proof.
      intros [D N]. inversion D; subst. destruct (step_kept q r) as [T N']; auto; [now apply (derived_is_there q rest)|].
      unfold kept_way. auto.
    Qed.

    Lemma kept_way_lasts way : kept_way way -> derivation s way.
    Proof.
      induction way as [|r [|q rest] IH]; intros P.
      - destruct P as [D _]. inversion D.
      - destruct P as [D N]. inversion D; subst. apply derives_first. now apply first_kept.
      - destruct (way_before r q rest P) as [B [_ T]]. apply derives_next; auto.
    Qed.

    Theorem recursion_all_continued_rule :
      (forall r, first b r \/ ~ first b r) -> (forall q r, step b q r \/ ~ step b q r) ->
      forall way, derivation s way <-> kept_way way \/ continued_way way.
    Proof.
      intros firsts steps way. split.
      - intros D. induction D as [r F|r q rest _ IH T].
        + destruct (firsts r) as [F'|F']; [|right; now apply way_first; auto].
          destruct (decided_touched r) as [D|D]; [right; now apply way_first; auto|left].
          split; [now apply derives_first|exact D].
        + destruct IH as [P|C]; [|right; now apply way_next].
          destruct (steps q r) as [T'|T']; [|right; now apply way_step; auto].
          destruct (decided_touched r) as [D|D]; [right; now apply way_step; auto|left].
          split; [|exact D]. apply derives_next; [apply P|exact T'].
      - intros [P|C]; [now apply kept_way_lasts|].
        induction C as [r F _|r q rest P T _|r q rest _ IH T]; [now apply derives_first| |now apply derives_next].
        apply derives_next; [now apply kept_way_lasts|exact T].
    Qed.

    (** No derivation is counted twice. *)
    Theorem recursion_all_continued_once way : kept_way way -> ~ continued_way way.
    Proof.
      intros P C. induction C as [r _ E|r q rest _ _ E|r q rest _ IH _].
      - destruct P as [D N]. inversion D; subst. destruct E; auto.
      - destruct (way_before r q rest P) as [_ [T _]]. destruct P as [_ N]. destruct E; auto.
      - apply IH. now apply (way_before r q rest).
    Qed.
  End Continued.
End Recursion.
