//! The tree as written.

use std::sync::Arc;

/// An expression and where it stands. `depth` is the height of the tree: everything that walks it recurses that far.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    pub at: usize,
    pub depth: u16,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Str(Arc<str>),
    Bytes(Arc<[u8]>),
    Ident(String),
    /// `operand.field`, or `operand.?field`
    Select {
        operand: Box<Expr>,
        field: String,
        optional: bool,
    },
    /// `operand[index]`, or `operand[?index]`
    Index {
        operand: Box<Expr>,
        index: Box<Expr>,
        optional: bool,
    },
    Call {
        target: Option<Box<Expr>>,
        name: String,
        args: Vec<Expr>,
    },
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Binary {
        op: Binary,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// Chains are flat, so that a hundred alternatives are not a hundred levels deep.
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Conditional {
        test: Box<Expr>,
        yes: Box<Expr>,
        no: Box<Expr>,
    },
    /// Elements; true where written `?element`.
    List(Vec<(bool, Expr)>),
    Map(Vec<Entry>),
    /// `Name{field: value}`; the checker knows whether there is such a type.
    Message {
        name: String,
        entries: Vec<Entry>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub optional: bool,
    pub key: Expr,
    pub value: Expr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
}

impl Binary {
    /// The operator as the function that CEL says it is.
    pub fn function(self) -> &'static str {
        match self {
            Binary::Add => "_+_",
            Binary::Subtract => "_-_",
            Binary::Multiply => "_*_",
            Binary::Divide => "_/_",
            Binary::Modulo => "_%_",
            Binary::Equal => "_==_",
            Binary::NotEqual => "_!=_",
            Binary::Less => "_<_",
            Binary::LessEqual => "_<=_",
            Binary::Greater => "_>_",
            Binary::GreaterEqual => "_>=_",
            Binary::In => "@in",
        }
    }
}

impl Kind {
    /// The children, for the height of a node.
    pub fn height(&self) -> u16 {
        let of = |exprs: &[Expr]| exprs.iter().map(|e| e.depth).max().unwrap_or(0);
        match self {
            Kind::Select { operand, .. } | Kind::Not(operand) | Kind::Negate(operand) => operand.depth,
            Kind::Index { operand, index, .. } => operand.depth.max(index.depth),
            Kind::Call { target, args, .. } => of(args).max(target.as_ref().map_or(0, |t| t.depth)),
            Kind::Binary { left, right, .. } => left.depth.max(right.depth),
            Kind::And(terms) | Kind::Or(terms) => of(terms),
            Kind::Conditional { test, yes, no } => test.depth.max(yes.depth).max(no.depth),
            Kind::List(elements) => elements.iter().map(|(_, e)| e.depth).max().unwrap_or(0),
            Kind::Map(entries) | Kind::Message { entries, .. } => {
                entries.iter().map(|e| e.key.depth.max(e.value.depth)).max().unwrap_or(0)
            }
            _ => 0,
        }
    }
}
