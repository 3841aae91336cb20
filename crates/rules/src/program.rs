//! What a checked expression becomes: a tree that is evaluated without looking anything up by name.

use std::sync::Arc;

use regex::Regex;

use crate::library::Overload;
use crate::value::Val;

#[derive(Debug)]
pub(crate) enum Op {
    Const(Val<'static>),
    /// A variable, by its place on the stack: the declared ones first, then those that macros bind.
    Var {
        slot: usize,
        name: Arc<str>,
    },
    /// `variables.name`: evaluated when it is first asked for.
    Definition(Arc<str>),
    Select {
        operand: Box<Op>,
        field: Arc<str>,
        optional: bool,
    },
    Has {
        operand: Box<Op>,
        field: Arc<str>,
    },
    Index {
        operand: Box<Op>,
        index: Box<Op>,
        optional: bool,
    },
    /// The overloads that the types allow; the values decide among them.
    Call {
        overloads: Box<[&'static Overload]>,
        args: Box<[Op]>,
    },
    /// A regular expression known beforehand.
    Pattern(Box<Pattern>),
    Host {
        target: Box<Op>,
        method: Arc<str>,
        args: Box<[Op]>,
    },
    And(Box<[Op]>),
    Or(Box<[Op]>),
    Conditional(Box<[Op; 3]>),
    List(Box<[(bool, Op)]>),
    Map(Box<[(bool, Op, Op)]>),
    Fold(Box<Fold>),
    /// `cel.bind`: one more variable for the body.
    Bind(Box<[Op; 2]>),
    /// `optMap`, `optFlatMap`: the body sees what is inside of the optional.
    IfPresent {
        target: Box<Op>,
        body: Box<Op>,
        flat: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Pattern {
    pub usage: PatternUse,
    pub text: Op,
    pub regex: Regex,
    pub limit: Option<Op>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternUse {
    Matches,
    Find,
    FindAll,
}

/// A macro over a list or a map.
#[derive(Debug)]
pub(crate) struct Fold {
    pub kind: FoldKind,
    pub range: Op,
    /// Whether the body has two variables: index and element, or key and value.
    pub two: bool,
    pub filter: Option<Op>,
    pub body: Op,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    /// `map` and `transformList`
    Map,
    Filter,
    TransformMap,
    TransformMapEntry,
    SortBy,
}

/// Cost of building a list or a map, beside its elements.
pub(crate) const LIST_COST: u64 = 10;
pub(crate) const MAP_COST: u64 = 30;

impl FoldKind {
    /// What a turn of the loop costs beside the body: the accumulator is tested and joined with it.
    pub fn turn_cost(self) -> u64 {
        match self {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => 3,
            FoldKind::Map | FoldKind::Filter | FoldKind::SortBy => LIST_COST + 2,
            FoldKind::TransformMap | FoldKind::TransformMapEntry => 4,
        }
    }
}
