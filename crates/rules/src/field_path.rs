//! `fieldPath` of a rule: a JSON path of names that must exist in the schema.

use objects::Path;
use schemas::{Additional, Cursor};

/// The path below the rule's own place, as errors write it.
pub(crate) fn resolve(text: &str, mut at: Cursor<'_>) -> Result<String, String> {
    let mut path = Path::root();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) = if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            if end == 0 {
                return Err("unexpected end of JSON path".to_owned());
            }
            let (name, after) = after.split_at(end);
            (name.to_owned(), after)
        } else if let Some(after) = rest.strip_prefix('[') {
            quoted(after)?
        } else {
            let end = rest.find(['.', '[', ']']).unwrap_or(rest.len()).max(1);
            return Err(format!("expected [ or . but got: {}", rest.get(..end).unwrap_or(rest)));
        };
        let node = at.node();
        match (&node.additional, node.properties.get(name.as_str())) {
            (_, Some(id)) => {
                path = path.child(&name);
                at = at.to(*id);
            }
            (Additional::Schema(id), None) if node.properties.is_empty() => {
                path = path.key(&name);
                at = at.to(*id);
            }
            _ => return Err("does not refer to a valid field".to_owned()),
        }
        rest = after;
    }
    Ok(path.as_str().to_owned())
}

/// `'name']...`: the name, and what follows the bracket.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let token = || text.split([']', '[', '.']).next().unwrap_or_default();
    let Some(inside) = text.strip_prefix('\'') else {
        let token = token();
        return Err(if token.is_empty() && text.is_empty() {
            "unexpected end of JSON path".to_owned()
        } else {
            format!("expected single quoted string but got {token}")
        });
    };
    let mut name = String::new();
    let mut chars = inside.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '\'' => {
                let after = inside.get(index + 1..).unwrap_or_default();
                return match after.strip_prefix(']') {
                    Some(rest) => Ok((name, rest)),
                    None if after.is_empty() => Err("unexpected end of JSON path".to_owned()),
                    None => Err(format!("expected ] but got {after}")),
                };
            }
            '\\' => match chars.next().map(|(_, c)| c) {
                Some('a') => name.push('\x07'),
                Some('b') => name.push('\x08'),
                Some('f') => name.push('\x0c'),
                Some('n') => name.push('\n'),
                Some('r') => name.push('\r'),
                Some('t') => name.push('\t'),
                Some('v') => name.push('\x0b'),
                Some(c @ ('\'' | '\\')) => name.push(c),
                other => {
                    let shown = other.map(String::from).unwrap_or_default();
                    return Err(format!("invalid string literal: invalid escape char \\{shown}"));
                }
            },
            c => name.push(c),
        }
    }
    Err(format!("expected single quoted string but got {text}"))
}
