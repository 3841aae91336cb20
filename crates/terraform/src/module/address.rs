//! How things of a module are called: by the calls that lead to them, with and without the keys of instances.

use std::fmt;

use serde_json::Value as Json;

/// The calls that lead from the root to a module.
pub type Path = Vec<String>;

/// How an instance is told from its brothers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    Only,
    Number(usize),
    Key(String),
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Which::Only => Ok(()),
            Which::Number(at) => write!(f, "[{at}]"),
            Which::Key(key) => write!(f, "[{}]", Json::String(key.clone())),
        }
    }
}

/// What the addresses of everything in a module begin with.
pub fn prefix(path: &[String]) -> String {
    path.iter().map(|call| format!("module.{call}.")).collect()
}

/// The address of a declaration: that of its instances, without their keys.
pub fn declaration(address: &str) -> String {
    let mut plain = String::with_capacity(address.len());
    let mut letters = address.chars();
    while let Some(letter) = letters.next() {
        if letter == '[' {
            skip_key(&mut letters);
        } else {
            plain.push(letter);
        }
    }
    plain
}

/// The type of the resource that an address is of.
pub fn type_name(address: &str) -> String {
    declaration(address).rsplit('.').nth(1).unwrap_or_default().to_owned()
}

/// To behind the bracket that ends a key; a quoted key may hold brackets itself.
fn skip_key(letters: &mut std::str::Chars<'_>) {
    let mut quoted = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if quoted => drop(letters.next()),
            '"' => quoted = !quoted,
            ']' if !quoted => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations() {
        for (address, expected) in [
            ("a_b.c", "a_b.c"),
            ("a_b.c[0]", "a_b.c"),
            ("module.x[\"k\"].a_b.c[1]", "module.x.a_b.c"),
            ("module.x[\"a]\\\"[\"].module.y.a_b.c[\"].\"]", "module.x.module.y.a_b.c"),
        ] {
            assert_eq!(declaration(address), expected);
            assert_eq!(type_name(address), "a_b");
        }
        assert_eq!(prefix(&["x".into(), "y".into()]), "module.x.module.y.");
        assert_eq!(Which::Key("a\"b".into()).to_string(), "[\"a\\\"b\"]");
    }
}
