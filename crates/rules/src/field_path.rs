//! `fieldPath` of a rule: a JSON path of names that must exist in the schema.

use objects::Path;
use schemas::{Additional, Cursor};

/// The path below the rule's own place, as errors write it; none if it leads nowhere.
pub(crate) fn resolve(text: &str, mut at: Cursor<'_>) -> Option<String> {
    let mut path = Path::root();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) = if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            let (name, after) = after.split_at(end);
            (name.to_owned(), after)
        } else {
            quoted(rest.strip_prefix("['")?)?
        };
        let node = at.node();
        match (&node.additional, node.properties.get(name.as_str())) {
            (_, Some(id)) => {
                path = path.child(&name);
                at = at.to(*id);
            }
            (Additional::Schema(id), None) if node.properties.is_empty() && !name.is_empty() => {
                path = path.key(&name);
                at = at.to(*id);
            }
            _ => return None,
        }
        rest = after;
    }
    Some(path.as_str().to_owned())
}

/// `name']...`: the name without its escapes, and what follows the bracket.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '\'' => return text.get(index + 1..)?.strip_prefix(']').map(|after| (name, after)),
            '\\' => name.push(match chars.next()?.1 {
                'a' => '\x07',
                'b' => '\x08',
                'f' => '\x0c',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\x0b',
                c @ ('\'' | '\\') => c,
                _ => return None,
            }),
            c => name.push(c),
        }
    }
    None
}
