//! The grammar: precedence climbing, bounded in length and in depth.

use super::ast::{Binary, Entry, Expr, Kind};
use super::token::{Token, tokenize};
use super::Issue;

/// Longest source, in code points; the limit that cel-go has.
const MAX_LENGTH: usize = 100_000;
/// Highest tree. Every later stage recurses along the tree, so this bounds their stack as well.
const MAX_DEPTH: u16 = 200;

const RESERVED: [&str; 18] = [
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
    "namespace", "return", "var", "void", "while", "in",
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
        Token::End => Ok(expr),
        other => Err(parser.issue(format!("Syntax error: extraneous input {} expecting <EOF>", shown(other)))),
    }
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
    /// How deep the grammar is now: bounds the parser's own stack before a tree exists.
    depth: u16,
}

type Parsed = Result<Expr, Issue>;

/// From loosest to tightest; `&&`, `||` and `?:` stand above these.
const LEVELS: [&[(&str, Binary)]; 3] = [
    &[
        ("<=", Binary::LessEqual),
        ("<", Binary::Less),
        (">=", Binary::GreaterEqual),
        (">", Binary::Greater),
        ("==", Binary::Equal),
        ("!=", Binary::NotEqual),
        ("in", Binary::In),
    ],
    &[("+", Binary::Add), ("-", Binary::Subtract)],
    &[("*", Binary::Multiply), ("/", Binary::Divide), ("%", Binary::Modulo)],
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
        Ok(Expr { at, depth, kind })
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
        self.node(at, Kind::Conditional { test: Box::new(test), yes: Box::new(yes), no: Box::new(no) })
    }

    /// `a || b || c`, and one level below it `a && b && c`, each as one flat node.
    fn chain(&mut self, operator: &str) -> Parsed {
        let or = operator == "||";
        let operand = |parser: &mut Self| if or { parser.chain("&&") } else { parser.level(0) };
        let first = operand(self)?;
        let at = self.at();
        if !self.eat(operator) {
            return Ok(first);
        }
        let mut terms = vec![first, operand(self)?];
        while self.eat(operator) {
            terms.push(operand(self)?);
        }
        self.node(at, if or { Kind::Or(terms) } else { Kind::And(terms) })
    }

    fn level(&mut self, level: usize) -> Parsed {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        loop {
            let at = self.at();
            let Some((_, op)) = operators.iter().find(|(symbol, _)| self.eat(symbol)) else { return Ok(left) };
            let right = self.level(level + 1)?;
            left = self.node(at, Kind::Binary { op: *op, left: Box::new(left), right: Box::new(right) })?;
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
                if count % 2 == 0 {
                    return Ok(operand);
                }
                let operand = Box::new(operand);
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
                    self.node(at, Kind::Call { target: Some(Box::new(expr)), name: field, args })?
                } else {
                    self.node(at, Kind::Select { operand: Box::new(expr), field, optional })?
                };
            } else if self.eat("[") {
                let optional = self.eat("?");
                let index = Box::new(self.expression()?);
                self.expect("]")?;
                expr = self.node(at, Kind::Index { operand: Box::new(expr), index, optional })?;
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
            args.push(self.expression()?);
            if self.eat(")") {
                return Ok(args);
            }
            self.expect(",")?;
        }
    }

    fn primary(&mut self) -> Parsed {
        let at = self.at();
        let kind = match self.take() {
            Token::Symbol("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Symbol("[") => self.list()?,
            Token::Symbol("{") => self.map()?,
            Token::Symbol(".") => {
                let (name, _) = self.selector()?;
                self.ident(at, name)?
            }
            Token::Symbol("-") => match self.take() {
                Token::Int(value) => match 0i64.checked_sub_unsigned(value) {
                    Some(value) => Kind::Int(value),
                    None => return Err(Issue::new(at, "invalid int literal")),
                },
                Token::Double(value) => Kind::Double(-value),
                _ => return Err(Issue::new(at, "Syntax error: extraneous input '-'")),
            },
            Token::Int(value) => match i64::try_from(value) {
                Ok(value) => Kind::Int(value),
                Err(_) => return Err(Issue::new(at, "invalid int literal")),
            },
            Token::Uint(value) => Kind::Uint(value),
            Token::Double(value) => Kind::Double(value),
            Token::Str(text) => Kind::Str(text),
            Token::Bytes(bytes) => Kind::Bytes(bytes),
            Token::Ident(name) => self.ident(at, name)?,
            other => {
                let message = format!("Syntax error: mismatched input {} expecting an expression", shown(&other));
                return Err(Issue::new(at, message));
            }
        };
        self.node(at, kind)
    }

    fn ident(&mut self, at: usize, name: String) -> Result<Kind, Issue> {
        match name.as_str() {
            "true" => return Ok(Kind::Bool(true)),
            "false" => return Ok(Kind::Bool(false)),
            "null" => return Ok(Kind::Null),
            _ => {}
        }
        if RESERVED.contains(&name.as_str()) {
            return Err(Issue::new(at, format!("reserved identifier: {name}")));
        }
        if self.eat("(") {
            return Ok(Kind::Call { target: None, name, args: self.arguments()? });
        }
        if self.eat("{") {
            // What is inside is parsed for its syntax, then dropped: no message types are declared.
            self.map()?;
            return Ok(Kind::Message { name });
        }
        Ok(Kind::Ident(name))
    }

    fn list(&mut self) -> Result<Kind, Issue> {
        let mut elements = Vec::new();
        while !self.eat("]") {
            let optional = self.eat("?");
            elements.push((optional, self.expression()?));
            if !self.eat(",") {
                self.expect("]")?;
                break;
            }
        }
        Ok(Kind::List(elements))
    }

    fn map(&mut self) -> Result<Kind, Issue> {
        let mut entries = Vec::new();
        while !self.eat("}") {
            let optional = self.eat("?");
            let key = self.expression()?;
            self.expect(":")?;
            entries.push(Entry { optional, key, value: self.expression()? });
            if !self.eat(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(Kind::Map(entries))
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
