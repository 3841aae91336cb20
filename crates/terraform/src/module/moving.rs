//! What was made under one address and has another by now: by `moved` blocks, and where `count` came to a resource or
//! left it. It stays the resource that it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hcl_edit::Span as _;
use hcl_edit::expr::{Expression, TraversalOperator};
use hcl_edit::structure::Block;

use super::address::Which;
use super::config::{Module, Repetition};
use super::problem::{File, Problem};
use super::tree::Tree;

/// A step of an address: a call of a module, or a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    /// `module.NAME` or `TYPE.NAME`.
    name: String,
    /// Of an instance: `[0]`, `["a"]`; nothing of the only one.
    key: String,
}

impl Part {
    fn is_call(&self) -> bool {
        self.name.starts_with("module.")
    }
}

/// The steps of an address; nothing if it is none.
fn parts(address: &str) -> Option<Vec<Part>> {
    let mut words: Vec<(String, String)> = vec![Default::default()];
    let (mut in_key, mut quoted, mut escaped) = (false, false, false);
    for letter in address.chars() {
        let (name, key) = words.last_mut()?;
        match letter {
            '.' if !in_key => {
                words.push(Default::default());
                continue;
            }
            '[' if !in_key => in_key = true,
            _ if !in_key => {
                name.push(letter);
                continue;
            }
            _ => {}
        }
        key.push(letter);
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ']' if !quoted => in_key = false,
            _ => {}
        }
    }
    let pair = |pair: &[(String, String)]| match pair {
        [(first, none), (second, key)] if none.is_empty() && !first.is_empty() && !second.is_empty() => {
            Some(Part { name: format!("{first}.{second}"), key: key.clone() })
        }
        _ => None,
    };
    words.chunks(2).map(pair).collect()
}

fn text(parts: &[Part]) -> String {
    parts.iter().map(|part| format!("{}{}", part.name, part.key)).collect::<Vec<_>>().join(".")
}

/// An address as a module writes it.
fn written(expression: &Expression) -> Option<Vec<Part>> {
    let Expression::Traversal(traversal) = expression else { return None };
    let mut address = traversal.expr.as_variable()?.as_str().to_owned();
    for operator in &traversal.operators {
        match operator.value() {
            TraversalOperator::GetAttr(name) => address = format!("{address}.{}", name.as_str()),
            TraversalOperator::LegacyIndex(index) => address = format!("{address}[{}]", index.value()),
            TraversalOperator::Index(Expression::Number(index)) => {
                address = format!("{address}[{}]", index.value());
            }
            TraversalOperator::Index(Expression::String(key)) => {
                address = format!("{address}{}", Which::Key(key.as_str().to_owned()));
            }
            _ => return None,
        }
    }
    parts(&address).filter(|parts| parts.iter().rev().skip(1).all(Part::is_call))
}

/// A `moved` block. Addresses are those of its module.
#[derive(Clone, Debug)]
pub struct Move {
    place: String,
    from: Vec<Part>,
    to: Vec<Part>,
}

impl Move {
    pub fn read(file: &Arc<File>, block: &Block) -> Result<Move, Problem> {
        let address = |name: &str| {
            let given = block.body.get_attribute(name);
            let wrong = || Problem::at(file, block.span(), "moved has from and to, which are addresses");
            written(&given.ok_or_else(wrong)?.value).ok_or_else(wrong)
        };
        let (from, to) = (address("from")?, address("to")?);
        let is_call = |parts: &[Part]| parts.last().is_some_and(Part::is_call);
        if is_call(&from) != is_call(&to) {
            let message = "a resource does not become a module, nor a module a resource";
            return Err(Problem::at(file, block.span(), message));
        }
        Ok(Move { place: file.place(block.span()), from, to })
    }

    /// Whether all instances are meant, whatever keys they have.
    fn is_whole(&self) -> bool {
        [&self.from, &self.to].iter().all(|parts| parts.last().is_some_and(|part| part.key.is_empty()))
    }

    /// What is declared there still would be made anew, and moved again.
    pub fn check(&self, module: &Module) -> Result<(), Problem> {
        let [only] = self.from.as_slice() else { return Ok(()) };
        let call = only.name.strip_prefix("module.");
        let declared = match call {
            Some(call) => module.calls.contains_key(call),
            None => module.resources.contains_key(&only.name),
        };
        if declared && self.is_whole() {
            let message = format!("{} has moved, and is declared still", only.name);
            return Err(Problem::Wrong { place: Some(self.place.clone()), message });
        }
        Ok(())
    }

    /// Where something is by now, if this has moved it. `path` leads to the module with the block.
    fn moved(&self, path: &[String], address: &[Part]) -> Option<Vec<Part>> {
        let (around, rest) = address.split_at_checked(path.len())?;
        let (own, below) = rest.split_at_checked(self.from.len())?;
        let is_inside = around.iter().zip(path).all(|(part, call)| part.name == format!("module.{call}"));
        let ((from, calls), (last, within)) = (self.from.split_last()?, own.split_last()?);
        let is_it = last.name == from.name && (self.is_whole() || last.key == from.key);
        if !is_inside || within != calls || !is_it {
            return None;
        }
        let mut now = [around, self.to.as_slice()].concat();
        if self.is_whole() {
            now.last_mut()?.key.clone_from(&last.key);
        }
        Some([now.as_slice(), below].concat())
    }
}

/// With `count` a resource is the first of them; without it again the only one.
fn recounted(tree: &Tree, address: &[Part]) -> Option<Vec<Part>> {
    let (last, calls) = address.split_last()?;
    let path: Option<Vec<String>> =
        calls.iter().map(|part| part.name.strip_prefix("module.").map(str::to_owned)).collect();
    let resource = tree.at(&path?)?.module.resources.get(&last.name)?;
    let key = match (&resource.repetition, last.key.as_str()) {
        (Repetition::Count(_), "") => "[0]",
        (Repetition::One, "[0]") => "",
        _ => return None,
    };
    Some([calls, &[Part { key: key.to_owned(), ..last.clone() }]].concat())
}

/// What is there, by the addresses that it has by now. What would come to where something else is stays where it was.
pub fn settled<T>(tree: &Tree, there: BTreeMap<String, T>) -> BTreeMap<String, T> {
    let moves: Vec<(Vec<String>, &Move)> = tree
        .all()
        .into_iter()
        .flat_map(|(path, tree)| tree.module.moves.iter().map(move |one| (path.clone(), one)))
        .collect();
    let now = |address: &String| {
        let mut found = parts(address)?;
        // One may lead to the next; those that lead in a circle lead nowhere.
        for _ in 0..=moves.len() {
            match moves.iter().find_map(|(path, one)| one.moved(path, &found)) {
                Some(next) => found = next,
                None => break,
            }
        }
        Some(text(&recounted(tree, &found).unwrap_or(found)))
    };
    let mut taken: BTreeSet<String> = there.keys().cloned().collect();
    let mut settled = BTreeMap::new();
    for (address, one) in there {
        let address = match now(&address) {
            Some(now) if taken.insert(now.clone()) => now,
            _ => address,
        };
        settled.insert(address, one);
    }
    settled
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use super::*;

    #[test]
    fn addresses() {
        for address in ["a_b.c", "a_b.c[0]", "module.x[\"a.b]\\\"[\"].module.y.a_b.c[\".\"]"] {
            assert_eq!(text(&parts(address).unwrap()), address);
        }
        assert_eq!(parts("module.x[\"k\"].a_b.c").unwrap().len(), 2);
        for wrong in ["", "a", "a.b.c", "a[0].b", "a..b.c"] {
            assert!(parts(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn what_is_there_is_found() {
        fn check(text: &str, there: &[&str], expected: &[&str]) {
            let inner = "moved {\n from = a_b.old\n to = a_b.new\n}";
            let tree =
                tree(&[("", text), ("inner", inner)], "").unwrap_or_else(|why| panic!("{text}: {why}"));
            let there = there.iter().map(|one| ((*one).to_owned(), *one)).collect();
            let found: Vec<String> =
                settled(&tree, there).into_iter().map(|(now, before)| format!("{before} > {now}")).collect();
            assert_eq!(found, expected, "{text}");
        }
        let moved = |from: &str, to: &str| format!("moved {{\n from = {from}\n to = {to}\n}}\n");
        check(&moved("a_b.x", "a_b.y"), &["a_b.x", "a_b.z"], &["a_b.x > a_b.y", "a_b.z > a_b.z"]);
        check(
            &moved("a_b.x", "a_c.y"),
            &["a_b.x[0]", "a_b.x[\"k\"]"],
            &["a_b.x[\"k\"] > a_c.y[\"k\"]", "a_b.x[0] > a_c.y[0]"],
        );
        check(
            &moved("a_b.x[0]", "a_b.x[\"k\"]"),
            &["a_b.x[0]", "a_b.x[1]"],
            &["a_b.x[0] > a_b.x[\"k\"]", "a_b.x[1] > a_b.x[1]"],
        );
        check(&moved("a_b.x", "a_b.x[\"k\"]"), &["a_b.x"], &["a_b.x > a_b.x[\"k\"]"]);
        check(&moved("a_b.x", "module.m.a_b.y"), &["a_b.x"], &["a_b.x > module.m.a_b.y"]);
        check(
            &moved("module.m", "module.n[\"k\"]"),
            &["module.m.a_b.x[1]", "module.m[0].a_b.x"],
            &["module.m[0].a_b.x > module.m[0].a_b.x", "module.m.a_b.x[1] > module.n[\"k\"].a_b.x[1]"],
        );
        // One after the other, and in a circle.
        let chain = moved("a_b.x", "a_b.y") + &moved("a_b.y", "a_b.z");
        check(&chain, &["a_b.x"], &["a_b.x > a_b.z"]);
        let circle = moved("a_b.x", "a_b.y") + &moved("a_b.y", "a_b.x");
        check(&circle, &["a_b.other"], &["a_b.other > a_b.other"]);
        // Nobody is put where another is.
        check(&moved("a_b.x", "a_b.y"), &["a_b.x", "a_b.y"], &["a_b.x > a_b.x", "a_b.y > a_b.y"]);
        // In every instance of the module that says so, and nowhere else.
        check(
            "module \"m\" {\n source = \"./inner\"\n}",
            &["a_b.old", "module.m[0].a_b.old", "module.m[1].a_b.old"],
            &[
                "a_b.old > a_b.old",
                "module.m[0].a_b.old > module.m[0].a_b.new",
                "module.m[1].a_b.old > module.m[1].a_b.new",
            ],
        );
        // As Terraform does without being told.
        let counted = "resource \"a_b\" \"x\" {\n count = 2\n}";
        check(counted, &["a_b.x"], &["a_b.x > a_b.x[0]"]);
        check(counted, &["a_b.x", "a_b.x[0]"], &["a_b.x > a_b.x", "a_b.x[0] > a_b.x[0]"]);
        check(
            "resource \"a_b\" \"x\" {\n}",
            &["a_b.x[0]", "a_b.x[1]"],
            &["a_b.x[0] > a_b.x", "a_b.x[1] > a_b.x[1]"],
        );
    }
}
