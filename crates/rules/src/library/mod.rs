//! The functions of CEL and of Kubernetes, as tables of overloads.
//!
//! An overload is a row: its name, the types it takes and gives, what it costs, and the function that runs it. The
//! checker, the estimator and the evaluator all read the same rows, so a function cannot be known to one of them only.

mod encoders;
mod formats;
mod lists;
mod math;
mod network;
mod opaque;
mod optional;
mod printf;
mod quantity;
mod regexes;
mod semver;
mod sets;
mod standard;
mod strings;
pub(crate) mod time;
mod url;

use std::collections::HashMap;
use std::sync::LazyLock;

pub(crate) use lists::sort_by_keys;
pub(crate) use opaque::{Opaque, OpaqueKind};
pub(crate) use regexes::compile as compile_regex;

use crate::budget::{Meter, traversal};
use crate::error::EvalError;
use crate::value::Val;

/// A type in a signature. `A` and `B` stand for any type, the same wherever they occur in one signature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum T {
    A,
    B,
    Dyn,
    Bool,
    Int,
    Uint,
    Double,
    /// Any of the three kinds of numbers.
    Number,
    Str,
    Bytes,
    Duration,
    Timestamp,
    Type,
    List(&'static T),
    Map(&'static T, &'static T),
    Optional(&'static T),
    Opaque(OpaqueKind),
}

/// What a call costs beyond the one unit of calling, from the sizes of its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost {
    Nothing,
    /// Reads one argument through.
    Scan(usize),
    /// Reads all arguments through.
    ScanAll,
    /// Reads as far as the shorter of two.
    ScanShorter,
    /// For each part of the first, a part of the second.
    Product,
    /// A regular expression over a text.
    Regex,
    /// One per element of an argument.
    Count(usize),
    /// One per element of an argument, and a tenth per character in them.
    Elements(usize),
    /// Each element of the first with each of the second.
    Pairs,
}

/// How large a result can be, from the sizes of the arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Size {
    Sum,
    Product,
    /// As large as an element of the first argument.
    Element,
    AtMost(u64),
}

/// Sizes of one argument: its own, and that of its largest element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub size: u64,
    pub element: u64,
}

pub(crate) type Run = for<'a> fn(&[Val<'a>], &mut Meter) -> Result<Val<'a>, EvalError>;

pub(crate) struct Overload {
    pub name: &'static str,
    /// `target.name(...)`, the target being the first argument; otherwise `name(...)`.
    pub member: bool,
    pub args: &'static [T],
    pub result: T,
    pub cost: Cost,
    pub size: Size,
    pub run: Run,
}

impl std::fmt::Debug for Overload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.name, self.args)
    }
}

/// A row for `name(...)`.
const fn function(name: &'static str, args: &'static [T], result: T, run: Run) -> Overload {
    Overload { name, member: false, args, result, cost: Cost::Nothing, size: Size::Sum, run }
}

/// A row for `target.name(...)`.
const fn member(name: &'static str, args: &'static [T], result: T, run: Run) -> Overload {
    Overload { name, member: true, args, result, cost: Cost::Nothing, size: Size::Sum, run }
}

impl Overload {
    const fn cost(self, cost: Cost) -> Self {
        Overload { cost, ..self }
    }

    const fn size(self, size: Size) -> Self {
        Overload { size, ..self }
    }

    /// What a call costs, by the sizes of its arguments: the same at compile time, with the largest sizes possible,
    /// and at run time, with the actual ones.
    pub fn charge(&self, of: &[Extent]) -> u64 {
        let extent = |index: usize| of.get(index).copied().unwrap_or(Extent { size: 1, element: 1 });
        let size = |index: usize| extent(index).size;
        let more = match self.cost {
            Cost::Nothing => 0,
            Cost::Scan(index) => traversal(size(index)),
            Cost::ScanAll => traversal(of.iter().fold(0, |sum, e| sum.saturating_add(e.size))),
            Cost::ScanShorter => traversal(size(0).min(size(1))),
            Cost::Product => traversal(size(0)).saturating_mul(traversal(size(1))),
            // As upstream, nothing for the call itself: definitions are written to fit these estimates.
            Cost::Regex => return traversal(size(0).saturating_add(1)).saturating_mul(size(1).div_ceil(4)),
            Cost::Count(index) => size(index),
            Cost::Elements(index) => size(index).saturating_mul(traversal(extent(index).element)),
            Cost::Pairs => size(0).saturating_mul(size(1)),
        };
        more.saturating_add(1)
    }

    pub fn result_size(&self, of: &[Extent]) -> u64 {
        let total = |e: &Extent| e.size.max(1).saturating_mul(if e.element > 1 { e.element } else { 1 });
        match self.size {
            Size::Sum => of.iter().fold(0, |sum, e| sum.saturating_add(e.size)),
            Size::Product => of.iter().fold(1, |product, e| product.saturating_mul(total(e))),
            Size::Element => of.first().map_or(1, |e| e.element),
            Size::AtMost(size) => size,
        }
    }

    /// Whether the values of a call are what the row takes.
    pub fn fits(&self, values: &[Val<'_>]) -> bool {
        self.args.len() == values.len() && self.args.iter().zip(values).all(|(t, v)| t.fits(v))
    }
}

impl T {
    fn fits(&self, value: &Val<'_>) -> bool {
        match (self, value) {
            (T::A | T::B | T::Dyn, _)
            | (T::Bool, Val::Bool(_))
            | (T::Int, Val::Int(_))
            | (T::Uint, Val::Uint(_))
            | (T::Double, Val::Double(_))
            | (T::Number, Val::Int(_) | Val::Uint(_) | Val::Double(_))
            | (T::Str, Val::Str(_))
            | (T::Bytes, Val::Bytes(_))
            | (T::Duration, Val::Duration(_))
            | (T::Timestamp, Val::Timestamp(_))
            | (T::Type, Val::Type(_))
            | (T::List(_), Val::List(_))
            | (T::Map(..), Val::Map(_))
            | (T::Optional(_), Val::Optional(_)) => true,
            (T::Opaque(kind), Val::Opaque(value)) => value.kind() == *kind,
            _ => false,
        }
    }
}

const LIBRARIES: &[&[Overload]] = &[
    standard::OVERLOADS,
    encoders::OVERLOADS,
    formats::OVERLOADS,
    lists::OVERLOADS,
    math::OVERLOADS,
    network::OVERLOADS,
    optional::OVERLOADS,
    quantity::OVERLOADS,
    regexes::OVERLOADS,
    semver::OVERLOADS,
    sets::OVERLOADS,
    strings::OVERLOADS,
    time::OVERLOADS,
    url::OVERLOADS,
];

/// By name; functions first, members second.
type Index = HashMap<&'static str, [Vec<&'static Overload>; 2]>;

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut index = Index::new();
    for overload in LIBRARIES.iter().copied().flatten() {
        let [functions, members] = index.entry(overload.name).or_default();
        if overload.member { members } else { functions }.push(overload);
    }
    index
});

/// All rows of a name, called as a member or not.
pub(crate) fn overloads(name: &str, member: bool) -> Option<&'static [&'static Overload]> {
    let [functions, members] = INDEX.get(name)?;
    let rows = if member { members } else { functions };
    (!rows.is_empty()).then_some(rows.as_slice())
}

/// Matches the values of a call, or says that there is no such overload.
macro_rules! take {
    ($values:expr, $pattern:pat => $body:expr) => {
        match $values {
            $pattern => $body,
            _ => Err($crate::error::EvalError::NoSuchOverload),
        }
    };
}
pub(crate) use take;
