//! What goes wrong while an expression is compiled or evaluated, in CEL's words.

/// Why an evaluation has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    #[error("no such overload")]
    NoSuchOverload,
    #[error("no such key: {0}")]
    NoSuchKey(String),
    #[error("index out of bounds: {0}")]
    IndexOutOfBounds(i64),
    #[error("division by zero")]
    DivisionByZero,
    #[error("modulus by zero")]
    ModulusByZero,
    #[error("{0} overflow")]
    Overflow(&'static str),
    #[error("no such attribute(s): {0}")]
    Unbound(String),
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
    #[error("{0}")]
    Function(String),
}

impl EvalError {
    pub(crate) fn function(message: impl Into<String>) -> Self {
        EvalError::Function(message.into())
    }
}

/// Why an expression is refused; the text has the place in the source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    #[error("compilation failed: {0}")]
    Invalid(String),
    #[error("must evaluate to {expected}")]
    WrongResult { expected: String },
}
