//! A set of fields: which paths of an object somebody owns.
//!
//! A tree of sorted vectors. A node may be a member itself, have members below it, or both; a node that is
//! neither is never kept, so two equal sets have equal trees. Mirrors structured-merge-diff's
//! `fieldpath.Set`, with its two vectors (members, children) joined into one.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

use crate::element::PathElement;

/// Paths of an object, without the root (nobody owns a whole object).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    pub(crate) nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub element: PathElement,
    /// Whether the path that ends here is in the set.
    pub member: bool,
    pub below: FieldSet,
}

impl Node {
    fn member(element: PathElement) -> Self {
        Node { element, member: true, below: FieldSet::new() }
    }

    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    pub const fn new() -> Self {
        FieldSet { nodes: Vec::new() }
    }

    /// A set of paths through named fields only: `["spec.replicas", "status"]`.
    pub fn of_fields<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let mut set = FieldSet::new();
        for path in paths {
            let path: Vec<_> = path.split('.').map(PathElement::field).collect();
            set.insert(&path);
        }
        set
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Every top-level field of the objects but these: what an endpoint such as `/status` does not write.
    pub fn all_but<'a>(names: &[&str], objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let fields = objects.into_iter().filter_map(Value::as_object).flat_map(|fields| fields.keys());
        let others = fields.filter(|name| !names.contains(&name.as_str()));
        FieldSet::of_nodes(others.map(|name| Node::member(PathElement::field(name.as_str()))).collect())
    }

    /// How many paths are in the set.
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.member) + node.below.len()).sum()
    }

    /// Adds one path; its parents are not added.
    pub fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => self.node_mut(last.clone()).member = true,
            [first, rest @ ..] => self.node_mut(first.clone()).below.insert(rest),
        }
    }

    pub fn has(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.find(last).is_some_and(|node| node.member),
            [first, rest @ ..] => self.find(first).is_some_and(|node| node.below.has(rest)),
        }
    }

    pub(crate) fn find(&self, element: &PathElement) -> Option<&Node> {
        let at = self.nodes.binary_search_by(|node| node.element.cmp(element)).ok()?;
        self.nodes.get(at)
    }

    /// The same for a named field, without making an element of the name.
    pub(crate) fn find_field(&self, name: &str) -> Option<&Node> {
        let at = self.nodes.binary_search_by(|node| match &node.element {
            PathElement::Field(field) => field.as_str().cmp(name),
            _ => Ordering::Greater,
        });
        self.nodes.get(at.ok()?)
    }

    /// The node of an element, made if it is absent. The caller puts something into it.
    fn node_mut(&mut self, element: PathElement) -> &mut Node {
        let fresh = |element| Node { element, member: false, below: FieldSet::new() };
        // Sets are mostly built in their own order: look at the end before searching.
        let at = match self.nodes.last().map(|last| last.element.cmp(&element)) {
            None | Some(Ordering::Less) => Err(self.nodes.len()),
            Some(Ordering::Equal) => Ok(self.nodes.len() - 1),
            Some(Ordering::Greater) => self.nodes.binary_search_by(|node| node.element.cmp(&element)),
        };
        let at = match at {
            Ok(at) => at,
            Err(at) => {
                self.nodes.insert(at, fresh(element));
                at
            }
        };
        &mut self.nodes[at]
    }

    /// Adds a child with what is below it; nothing if there is nothing.
    pub(crate) fn put(&mut self, element: PathElement, member: bool, below: FieldSet) {
        if !member && below.is_empty() {
            return;
        }
        let node = self.node_mut(element);
        node.member |= member;
        if node.below.is_empty() {
            node.below = below;
        } else {
            node.below.absorb(below);
        }
    }

    /// Adds all of `other`.
    pub fn absorb(&mut self, other: FieldSet) {
        // Each insertion moves what follows it: worth it for a few, not for many.
        if other.nodes.len() * 8 <= self.nodes.len() {
            for node in other.nodes {
                self.put(node.element, node.member, node.below);
            }
            return;
        }
        if !self.is_empty() {
            let mut nodes = std::mem::take(&mut self.nodes);
            nodes.extend(other.nodes);
            *self = FieldSet::of_nodes(nodes);
        } else {
            *self = other;
        }
    }

    /// A set of nodes in any order, none of them empty; those of one element become one.
    pub(crate) fn of_nodes(mut nodes: Vec<Node>) -> FieldSet {
        if !nodes.is_sorted_by(|a, b| a.element < b.element) {
            nodes.sort_by(|a, b| a.element.cmp(&b.element));
            nodes.dedup_by(|next, kept| {
                let same = next.element == kept.element;
                if same {
                    kept.member |= next.member;
                    kept.below.absorb(std::mem::take(&mut next.below));
                }
                same
            });
        }
        FieldSet { nodes }
    }

    #[must_use]
    pub fn union(&self, other: &FieldSet) -> FieldSet {
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        zip(&self.nodes, &other.nodes, |mine, theirs| match (mine, theirs) {
            (Some(mine), Some(theirs)) => nodes.push(Node {
                element: mine.element.clone(),
                member: mine.member || theirs.member,
                below: mine.below.union(&theirs.below),
            }),
            (Some(node), None) | (None, Some(node)) => nodes.push(node.clone()),
            (None, None) => {}
        });
        FieldSet { nodes }
    }

    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut nodes = Vec::new();
        zip(&self.nodes, &other.nodes, |mine, theirs| {
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                let member = mine.member && theirs.member;
                let below = mine.below.intersection(&theirs.below);
                if member || !below.is_empty() {
                    nodes.push(Node { element: mine.element.clone(), member, below });
                }
            }
        });
        FieldSet { nodes }
    }

    /// What is here and not there, path by path: a parent there takes no child here away.
    #[must_use]
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        let mut set = self.clone();
        set.subtract(other);
        set
    }

    /// The same in place. Returns whether anything went.
    pub fn subtract(&mut self, other: &FieldSet) -> bool {
        self.take_away(other, false)
    }

    /// What is here, and neither there nor below anything that is there.
    #[must_use]
    pub fn recursive_difference(&self, other: &FieldSet) -> FieldSet {
        let mut set = self.clone();
        set.subtract_recursively(other);
        set
    }

    pub fn subtract_recursively(&mut self, other: &FieldSet) -> bool {
        self.take_away(other, true)
    }

    fn take_away(&mut self, other: &FieldSet, with_children: bool) -> bool {
        if self.is_empty() || other.is_empty() {
            return false;
        }
        let mut changed = false;
        for theirs in &other.nodes {
            let Ok(at) = self.nodes.binary_search_by(|node| node.element.cmp(&theirs.element)) else {
                continue;
            };
            let mine = &mut self.nodes[at];
            if theirs.member {
                changed |= mine.member;
                mine.member = false;
                if with_children && !mine.below.is_empty() {
                    mine.below = FieldSet::new();
                    changed = true;
                }
            }
            changed |= mine.below.take_away(&theirs.below, with_children);
        }
        if changed {
            self.nodes.retain(|node| !node.is_empty());
        }
        changed
    }

    /// Whether every path here is there too.
    pub fn is_subset(&self, other: &FieldSet) -> bool {
        self.nodes.iter().all(|mine| {
            other
                .find(&mine.element)
                .is_some_and(|theirs| (!mine.member || theirs.member) && mine.below.is_subset(&theirs.below))
        })
    }

    /// Whether any path is in both.
    pub fn intersects(&self, other: &FieldSet) -> bool {
        let (few, many) = if self.nodes.len() <= other.nodes.len() { (self, other) } else { (other, self) };
        few.nodes.iter().any(|a| {
            many.find(&a.element).is_some_and(|b| a.member && b.member || a.below.intersects(&b.below))
        })
    }

    /// Only the paths with nothing below them.
    #[must_use]
    pub fn leaves(&self) -> FieldSet {
        let nodes = self.nodes.iter().map(|node| Node {
            element: node.element.clone(),
            member: node.member && node.below.is_empty(),
            below: node.below.leaves(),
        });
        FieldSet { nodes: nodes.collect() }
    }

    /// Every path; at each level first the members, then what is below them, as conflicts are listed.
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut all = Vec::with_capacity(self.len());
        self.collect_paths(&mut Vec::new(), &mut all);
        all
    }

    fn collect_paths(&self, prefix: &mut Vec<PathElement>, all: &mut Vec<Vec<PathElement>>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let mut path = prefix.clone();
            path.push(node.element.clone());
            all.push(path);
        }
        for node in self.nodes.iter().filter(|node| !node.below.is_empty()) {
            prefix.push(node.element.clone());
            node.below.collect_paths(prefix, all);
            prefix.pop();
        }
    }
}

/// `.spec.containers[name="nginx"].image`
pub fn shown_path(path: &[PathElement]) -> String {
    path.iter().map(PathElement::to_string).collect()
}

/// One path a line.
impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, path) in self.paths().iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { "\n" }, shown_path(path))?;
        }
        Ok(())
    }
}

/// Walks two sorted lists of nodes together.
fn zip<'a>(a: &'a [Node], b: &'a [Node], mut each: impl FnMut(Option<&'a Node>, Option<&'a Node>)) {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => a.element.cmp(&b.element),
        };
        let left = if order.is_le() { a.next() } else { None };
        let right = if order.is_ge() { b.next() } else { None };
        each(left, right);
    }
}
