//! The grammar: precedence climbing, bounded in length and in depth.

use super::Issue;
use super::ast::{Binary, Entry, Expr, Kind};
use super::token::{Token, tokenize};

/// Longest source, in code points; the limit that cel-go has.
const MAX_LENGTH: usize = 100_000;
/// Highest tree, and deepest nesting while it is parsed. Every later stage recurses along the tree, so this bounds their
/// stack as well: half a megabyte in a build without optimization.
const MAX_DEPTH: u16 = 100;

const RESERVED: [&str; 18] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
    "in",
];

pub(crate) fn parse(source: &str) -> Result<Expr, Issue> {
    if source.len() > MAX_LENGTH && source.chars().count() > MAX_LENGTH {
        let size = source.chars().count();
        let message = format!("expression code point size exceeds limit: size: {size}, limit {MAX_LENGTH}");
        return Err(Issue::new(0, message));
    }
    let mut parser = Parser { tokens: tokenize(source)?, next: 0, depth: 0 };
    let expr = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(*expr),
        other => {
            Err(parser.issue(format!("Syntax error: extraneous input {} expecting <EOF>", shown(other))))
        }
    }
}

/// What an expression can begin with.
const EXPRESSION: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, \
                          BYTES, IDENTIFIER}";

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
    /// How deep the grammar is now: bounds the parser's own stack before a tree exists.
    depth: u16,
}

/// Boxed, so that the many small frames of a recursive descent stay small.
type Parsed = Result<Box<Expr>, Issue>;

/// Operators and how tightly they bind; `&&`, `||` and `?:` stand above these.
const OPERATORS: [(&str, Binary, u8); 12] = [
    ("<=", Binary::LessEqual, 1),
    ("<", Binary::Less, 1),
    (">=", Binary::GreaterEqual, 1),
    (">", Binary::Greater, 1),
    ("==", Binary::Equal, 1),
    ("!=", Binary::NotEqual, 1),
    ("in", Binary::In, 1),
    ("+", Binary::Add, 2),
    ("-", Binary::Subtract, 2),
    ("*", Binary::Multiply, 3),
    ("/", Binary::Divide, 3),
    ("%", Binary::Modulo, 3),
];

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.next).map_or(&Token::End, |(_, token)| token)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(0, |(at, _)| *at)
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(s) if *s == symbol);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Issue> {
        if self.eat(symbol) {
            return Ok(());
        }
        Err(self.issue(format!("Syntax error: mismatched input {} expecting '{symbol}'", shown(self.peek()))))
    }

    fn issue(&self, message: impl Into<String>) -> Issue {
        Issue::new(self.at(), message)
    }

    fn node(&self, at: usize, kind: Kind) -> Parsed {
        let depth = kind.height() + 1;
        if depth > MAX_DEPTH {
            return Err(Issue::new(at, format!("expression recursion limit exceeded: {MAX_DEPTH}")));
        }
        Ok(Box::new(Expr { at, depth, kind }))
    }

    fn expression(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.issue(format!("expression recursion limit exceeded: {MAX_DEPTH}")));
        }
        let expr = self.conditional();
        self.depth -= 1;
        expr
    }

    fn conditional(&mut self) -> Parsed {
        let test = self.chain("||")?;
        let at = self.at();
        if !self.eat("?") {
            return Ok(test);
        }
        let yes = self.chain("||")?;
        self.expect(":")?;
        let no = self.expression()?;
        self.node(at, Kind::Conditional { test, yes, no })
    }

    /// `a || b || c`, and one level below it `a && b && c`, each as one flat node.
    fn chain(&mut self, operator: &str) -> Parsed {
        let or = operator == "||";
        let operand = |parser: &mut Self| if or { parser.chain("&&") } else { parser.binary(1) };
        let first = operand(self)?;
        let at = self.at();
        if !self.eat(operator) {
            return Ok(first);
        }
        let mut terms = vec![*first, *operand(self)?];
        while self.eat(operator) {
            terms.push(*operand(self)?);
        }
        self.node(at, if or { Kind::Or(terms) } else { Kind::And(terms) })
    }

    /// Operators that bind at least this tightly. Climbing by precedence keeps the stack flat between parentheses.
    fn binary(&mut self, least: u8) -> Parsed {
        let mut left = self.unary()?;
        loop {
            let at = self.at();
            let found = OPERATORS.iter().find(|(symbol, _, binding)| *binding >= least && self.eat(symbol));
            let Some((_, op, binding)) = found else { return Ok(left) };
            let right = self.binary(binding + 1)?;
            left = self.node(at, Kind::Binary { op: *op, left, right })?;
        }
    }

    fn unary(&mut self) -> Parsed {
        let at = self.at();
        for symbol in ["!", "-"] {
            let mut count = 0usize;
            // The sign of the smallest integer belongs to its literal.
            while !(symbol == "-" && self.negative_literal()) && self.eat(symbol) {
                count += 1;
            }
            if count > 0 {
                let operand = self.member()?;
                if count.is_multiple_of(2) {
                    return Ok(operand);
                }
                return self.node(at, if symbol == "!" { Kind::Not(operand) } else { Kind::Negate(operand) });
            }
        }
        self.member()
    }

    fn negative_literal(&self) -> bool {
        matches!(self.peek(), Token::Symbol("-"))
            && matches!(self.tokens.get(self.next + 1), Some((_, Token::Int(_) | Token::Double(_))))
    }

    fn member(&mut self) -> Parsed {
        let mut expr = self.primary()?;
        loop {
            let at = self.at();
            if self.eat(".") {
                let optional = self.eat("?");
                let (field, quoted) = self.selector()?;
                expr = if !optional && !quoted && self.eat("(") {
                    let args = self.arguments()?;
                    self.node(at, Kind::Call { target: Some(expr), name: field, args })?
                } else {
                    self.node(at, Kind::Select { operand: expr, field, optional })?
                };
            } else if self.eat("[") {
                let optional = self.eat("?");
                let index = self.expression()?;
                self.expect("]")?;
                expr = self.node(at, Kind::Index { operand: expr, index, optional })?;
            } else if let Some(name) = type_name(&expr)
                && self.eat("{")
            {
                let entries = self.map()?;
                expr = self.node(at, Kind::Message { name, entries })?;
            } else {
                return Ok(expr);
            }
        }
    }

    fn selector(&mut self) -> Result<(String, bool), Issue> {
        match self.take() {
            Token::Ident(name) => Ok((name, false)),
            Token::QuotedIdent(name) => Ok((name, true)),
            other => {
                self.next -= 1;
                Err(self.issue(format!("Syntax error: no viable alternative at input {}", shown(&other))))
            }
        }
    }

    fn arguments(&mut self) -> Result<Vec<Expr>, Issue> {
        let mut args = Vec::new();
        if self.eat(")") {
            return Ok(args);
        }
        loop {
            args.push(*self.expression()?);
            if self.eat(")") {
                return Ok(args);
            }
            self.expect(",")?;
        }
    }

    fn primary(&mut self) -> Parsed {
        let at = self.at();
        if self.eat("(") {
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.eat("[") {
            return self.list(at);
        }
        if self.eat("{") {
            let entries = self.map()?;
            return self.node(at, Kind::Map(entries));
        }
        // A leading dot names the outermost scope, which is the only one.
        if self.eat(".") || matches!(self.peek(), Token::Ident(_)) {
            let (name, _) = self.selector()?;
            return self.ident(at, name);
        }
        let literal = self.literal()?;
        self.node(at, literal)
    }

    fn literal(&mut self) -> Result<Kind, Issue> {
        let at = self.at();
        let integer =
            |value: Option<i64>| value.map(Kind::Int).ok_or_else(|| Issue::new(at, "invalid int literal"));
        match self.take() {
            Token::Symbol("-") => match self.take() {
                Token::Int(value) => integer(0i64.checked_sub_unsigned(value)),
                Token::Double(value) => Ok(Kind::Double(-value)),
                _ => Err(Issue::new(at, "Syntax error: extraneous input '-'")),
            },
            Token::Int(value) => integer(i64::try_from(value).ok()),
            Token::Uint(value) => Ok(Kind::Uint(value)),
            Token::Double(value) => Ok(Kind::Double(value)),
            Token::Str(text) => Ok(Kind::Str(text)),
            Token::Bytes(bytes) => Ok(Kind::Bytes(bytes)),
            other => {
                let message =
                    format!("Syntax error: mismatched input {} expecting {EXPRESSION}", shown(&other));
                Err(Issue::new(at, message))
            }
        }
    }

    fn ident(&mut self, at: usize, name: String) -> Parsed {
        if let Some(word) = word(&name) {
            return self.node(at, word);
        }
        if RESERVED.contains(&name.as_str()) {
            return Err(Issue::new(at, format!("reserved identifier: {name}")));
        }
        if self.eat("(") {
            let args = self.arguments()?;
            return self.node(at, Kind::Call { target: None, name, args });
        }
        if self.eat("{") {
            let entries = self.map()?;
            return self.node(at, Kind::Message { name, entries });
        }
        self.node(at, Kind::Ident(name))
    }

    fn list(&mut self, at: usize) -> Parsed {
        let mut elements = Vec::new();
        while !self.eat("]") {
            let optional = self.eat("?");
            elements.push((optional, *self.expression()?));
            if !self.eat(",") {
                self.expect("]")?;
                break;
            }
        }
        self.node(at, Kind::List(elements))
    }

    fn map(&mut self) -> Result<Vec<Entry>, Issue> {
        let mut entries = Vec::new();
        while !self.eat("}") {
            let optional = self.eat("?");
            let key = *self.expression()?;
            self.expect(":")?;
            entries.push(Entry { optional, key, value: *self.expression()? });
            if !self.eat(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(entries)
    }
}

fn word(name: &str) -> Option<Kind> {
    match name {
        "true" => Some(Kind::Bool(true)),
        "false" => Some(Kind::Bool(false)),
        "null" => Some(Kind::Null),
        _ => None,
    }
}

fn shown(token: &Token) -> String {
    match token {
        Token::End => "'<EOF>'".to_owned(),
        Token::Ident(name) | Token::QuotedIdent(name) => format!("'{name}'"),
        Token::Int(value) | Token::Uint(value) => format!("'{value}'"),
        Token::Double(value) => format!("'{value}'"),
        Token::Str(text) => format!("'{text}'"),
        Token::Bytes(_) => "bytes".to_owned(),
        Token::Symbol(symbol) => format!("'{symbol}'"),
    }
}

/// `A.b.c`, if an expression is the name of a nested type.
fn type_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Select { operand, field, optional: false } => match &operand.kind {
            Kind::Ident(name) => Some(format!("{name}.{field}")),
            _ => Some(format!("{}.{field}", type_name(operand)?)),
        },
        _ => None,
    }
}
