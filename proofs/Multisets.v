(** Multisets of rows.

    A relation at an instant is a list of rows.  The order of the list has no meaning; what counts is how often each row
    occurs in it.  [copies r l] is that number.  [total g l] adds up [g r] over the rows [r] of the list [l].  Both are
    integers, so that differences of multiplicities need no special case. *)

From Coq Require Import ZArith List Bool Lia Permutation.
Import ListNotations.
Open Scope Z_scope.

(** Rows can be compared.  For SQL this is the comparison of answers: NULL equals NULL, and NaN equals NaN. *)
Class Row (T : Type) := same : forall x y : T, {x = y} + {x <> y}.

#[export] Instance row_Z : Row Z := Z.eq_dec.
#[export] Instance row_nat : Row nat := Nat.eq_dec.
#[export] Instance row_bool : Row bool := bool_dec.

#[export] Instance row_unit : Row unit.
Proof. intros [] []; left; reflexivity. Defined.

#[export] Instance row_pair {A B} `{Row A} `{Row B} : Row (A * B).
Proof.
  intros [a b] [c d]; destruct (same a c) as [<- | N]; [destruct (same b d) as [<- | N] |];
    (left; reflexivity) || (right; congruence).
Defined.

#[export] Instance row_option {A} `{Row A} : Row (option A).
Proof.
  intros [a |] [b |]; try destruct (same a b) as [<- | N]; (left; reflexivity) || (right; congruence).
Defined.

#[export] Instance row_list {A} `{Row A} : Row (list A) := list_eq_dec same.

(** ** Sums over lists *)

Definition total {T} (g : T -> Z) (l : list T) : Z := fold_right (fun r n => g r + n) 0 l.

Lemma total_app {T} (g : T -> Z) l m : total g (l ++ m) = total g l + total g m.
Proof. induction l; simpl; lia. Qed.

Lemma total_map {S T} (g : T -> Z) (f : S -> T) l : total g (map f l) = total (fun r => g (f r)) l.
Proof. induction l; simpl; lia. Qed.

Lemma total_flat_map {S T} (g : T -> Z) (f : S -> list T) l :
  total g (flat_map f l) = total (fun r => total g (f r)) l.
Proof. induction l; simpl; [reflexivity |]. rewrite total_app; lia. Qed.

Lemma total_add {T} (g h : T -> Z) l : total (fun r => g r + h r) l = total g l + total h l.
Proof. induction l; simpl; lia. Qed.

Lemma total_scale {T} (n : Z) (g : T -> Z) l : total (fun r => n * g r) l = n * total g l.
Proof. induction l; simpl; lia. Qed.

Lemma total_sub {T} (g h : T -> Z) l : total (fun r => g r - h r) l = total g l - total h l.
Proof. induction l; simpl; lia. Qed.

Lemma total_ext {T} (g h : T -> Z) l : (forall r, In r l -> g r = h r) -> total g l = total h l.
Proof. induction l; simpl; intros E; [reflexivity |]. rewrite E by auto. rewrite IHl by auto. reflexivity. Qed.

Lemma total_zero {T} (g : T -> Z) l : (forall r, In r l -> g r = 0) -> total g l = 0.
Proof. intros E. rewrite (total_ext _ (fun _ => 0) l E). clear E. induction l; simpl; lia. Qed.

Lemma total_filter {T} (g : T -> Z) (p : T -> bool) l :
  total g (filter p l) = total (fun r => if p r then g r else 0) l.
Proof. induction l; simpl; [reflexivity |]. destruct (p a); simpl; lia. Qed.

Lemma total_nonnegative {T} (g : T -> Z) l : (forall r, 0 <= g r) -> 0 <= total g l.
Proof. intros P; induction l; simpl; [lia |]. specialize (P a); lia. Qed.

(** A sum of terms that is positive has a positive term. *)
Lemma total_positive {T} (g : T -> Z) l : 0 < total g l -> exists r, In r l /\ 0 < g r.
Proof.
  induction l as [| x l IH]; simpl; intros P; [lia |].
  destruct (Z_lt_le_dec 0 (g x)); [eauto |].
  destruct IH as [r [I G]]; [lia | eauto].
Qed.

Lemma total_permutation {T} (g : T -> Z) l m : Permutation l m -> total g l = total g m.
Proof. induction 1; simpl; lia. Qed.

Lemma nodup_app {T} (l m : list T) : NoDup l -> NoDup m -> (forall x, In x l -> ~ In x m) -> NoDup (l ++ m).
Proof.
  induction 1 as [| x l N D IH]; simpl; intros M J; [assumption |]. constructor.
  - rewrite in_app_iff. intros [I | I]; [contradiction | apply (J x); auto].
  - apply IH; auto.
Qed.

(** ** Multiplicities *)

(** 1 if the two rows are the same, and otherwise 0. *)
Definition one_if {T} `{Row T} (x y : T) : Z := if same x y then 1 else 0.

Definition copies {T} `{Row T} (r : T) (l : list T) : Z := total (fun x => one_if x r) l.

Arguments one_if : simpl never.
Arguments copies : simpl never.

Section Multiplicities.
  Context {T : Type} `{Row T}.
  Implicit Types (r : T) (l m : list T).

  Lemma one_if_same r : one_if r r = 1.
  Proof. unfold one_if; destruct (same r r); congruence. Qed.

  Lemma one_if_other x y : x <> y -> one_if x y = 0.
  Proof. unfold one_if; destruct (same x y); congruence. Qed.

  Lemma one_if_nonnegative x y : 0 <= one_if x y.
  Proof. unfold one_if; destruct (same x y); lia. Qed.

  Lemma one_if_symmetric x y : one_if x y = one_if y x.
  Proof. unfold one_if; destruct (same x y), (same y x); congruence. Qed.

  Lemma copies_nil r : copies r [] = 0.
  Proof. reflexivity. Qed.

  Lemma copies_cons r x l : copies r (x :: l) = one_if x r + copies r l.
  Proof. reflexivity. Qed.

  Lemma copies_app r l m : copies r (l ++ m) = copies r l + copies r m.
  Proof. apply total_app. Qed.

  Lemma copies_nonnegative r l : 0 <= copies r l.
  Proof. apply total_nonnegative; intros; apply one_if_nonnegative. Qed.

  Lemma copies_in r l : In r l <-> 0 < copies r l.
  Proof.
    split.
    - induction l as [| x l IH]; simpl; [easy |]. pose proof (copies_nonnegative r l). rewrite copies_cons.
      intros [-> | I]; [rewrite one_if_same; lia |]. pose proof (one_if_nonnegative x r). specialize (IH I); lia.
    - intros P. apply total_positive in P as [x [I P]].
      unfold one_if in P. destruct (same x r) as [<- | N]; [assumption | lia].
  Qed.

  Lemma copies_not_in r l : ~ In r l <-> copies r l = 0.
  Proof. rewrite copies_in. pose proof (copies_nonnegative r l). lia. Qed.

  Lemma in_or_not r l : {In r l} + {~ In r l}.
  Proof. apply in_dec; apply same. Qed.

  Lemma copies_filter r (p : T -> bool) l : copies r (filter p l) = if p r then copies r l else 0.
  Proof.
    unfold copies; rewrite total_filter. destruct (p r) eqn:P.
    - apply total_ext; intros x _. destruct (same x r) as [-> | N]; [now rewrite P |].
      rewrite one_if_other by assumption. now destruct (p x).
    - apply total_zero; intros x _. destruct (same x r) as [-> | N]; [now rewrite P |].
      rewrite one_if_other by assumption. now destruct (p x).
  Qed.

  Lemma copies_nodup r l : copies r (nodup same l) = if in_or_not r l then 1 else 0.
  Proof.
    induction l as [| x l IH]; simpl.
    - now destruct (in_or_not r []).
    - destruct (in_dec same x l) as [I | N]; rewrite ?copies_cons, IH; clear IH;
        destruct (in_or_not r l), (in_or_not r (x :: l)); simpl in *;
        destruct (same x r) as [-> | D]; rewrite ?one_if_same, ?one_if_other by assumption; tauto || reflexivity.
  Qed.

  Lemma copies_of_distinct r l : NoDup l -> In r l -> copies r l = 1.
  Proof.
    intros D I. rewrite <- (nodup_fixed_point same D), copies_nodup. now destruct (in_or_not r l).
  Qed.

  (** Over a list [D] without repetition, a sum that counts only the row [x] is the value at [x]. *)
  Lemma total_at_one (g : T -> Z) x D : NoDup D -> In x D -> total (fun d => one_if x d * g d) D = g x.
  Proof.
    induction 1 as [| y D N ND IH]; simpl; [easy |]. intros [-> | I].
    - rewrite one_if_same, total_zero; [lia |]. intros d Id. rewrite one_if_other; [lia |]. congruence.
    - rewrite IH, one_if_other by congruence. lia.
  Qed.

  (** A sum over the rows of [l] is a sum over its distinct rows, each with its multiplicity. *)
  Lemma total_by_copies (g : T -> Z) l D :
    NoDup D -> incl l D -> total g l = total (fun d => copies d l * g d) D.
  Proof.
    intros ND. induction l as [| x l IH]; intros I; simpl.
    - symmetry; apply total_zero; reflexivity.
    - rewrite IH by (intros y Y; apply I; now right).
      rewrite (total_ext (fun d => copies d (x :: l) * g d) (fun d => one_if x d * g d + copies d l * g d)).
      + rewrite total_add, total_at_one; [reflexivity | assumption | apply I; now left].
      + intros d _. rewrite copies_cons. lia.
  Qed.

  (** Where a sum of values that are not negative rises, the multiplicity of some row with a positive value rises. *)
  Lemma total_rises (g : T -> Z) l m :
    (forall r, 0 <= g r) -> total g l < total g m -> exists r, 0 < g r /\ copies r l < copies r m.
  Proof.
    intros P L. set (D := nodup same (l ++ m)).
    assert (ND : NoDup D) by apply NoDup_nodup.
    assert (Il : incl l D) by (intros x X; apply nodup_In, in_or_app; auto).
    assert (Im : incl m D) by (intros x X; apply nodup_In, in_or_app; auto).
    rewrite (total_by_copies g l D), (total_by_copies g m D) in L by assumption.
    assert (Q : 0 < total (fun d => copies d m * g d - copies d l * g d) D)
      by (rewrite (total_sub (fun d => copies d m * g d) (fun d => copies d l * g d)); lia).
    apply total_positive in Q as [r [_ Q]]. exists r. specialize (P r).
    rewrite <- Z.mul_sub_distr_r in Q. apply Z.lt_0_mul in Q. lia.
  Qed.

  Lemma copies_count r l : copies r l = Z.of_nat (count_occ same l r).
  Proof.
    induction l as [| x l IH]; [reflexivity |]. rewrite copies_cons, IH. unfold one_if.
    destruct (same x r) as [E | N]; [rewrite count_occ_cons_eq | rewrite count_occ_cons_neq]; auto; lia.
  Qed.

  (** Two lists with the same multiplicities are equal but for their order. *)
  Lemma permutation_by_copies l m : (forall r, copies r l = copies r m) <-> Permutation l m.
  Proof.
    rewrite (Permutation_count_occ same). split; intros E r.
    - apply Nat2Z.inj. rewrite <- !copies_count. apply E.
    - rewrite !copies_count. f_equal. apply E.
  Qed.
End Multiplicities.

Lemma copies_map {S T} `{Row T} (f : S -> T) v l : copies v (map f l) = total (fun r => one_if (f r) v) l.
Proof. apply total_map. Qed.

Lemma copies_flat_map {S T} `{Row T} (f : S -> list T) v l :
  copies v (flat_map f l) = total (fun r => copies v (f r)) l.
Proof. apply total_flat_map. Qed.

Lemma one_if_pair {A B} `{Row A} `{Row B} (a c : A) (b d : B) :
  one_if (a, b) (c, d) = one_if a c * one_if b d.
Proof.
  unfold one_if. destruct (same (a, b) (c, d)), (same a c), (same b d); congruence || lia.
Qed.

(** In a cross product, multiplicities are multiplied. *)
Lemma copies_product {A B} `{Row A} `{Row B} (a : A) (b : B) l m :
  copies (a, b) (list_prod l m) = copies a l * copies b m.
Proof.
  induction l as [| x l IH]; simpl; [reflexivity |].
  rewrite copies_app, IH, copies_map, copies_cons, Z.mul_add_distr_r. f_equal.
  unfold copies. rewrite <- total_scale. apply total_ext; intros y _. apply one_if_pair.
Qed.
