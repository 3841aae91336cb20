//! Paths into answers, as rules write them.
//!
//! `A.B` goes through members, `A[].B` through every item of a list, `A[0].B` through one, `A[C.D=v].B` through the
//! first whose member is `v`, and `A[*C.D=v].B` through all of those. A value in a filter that begins with `$` is
//! looked up. Paths through many items lead to a list.

use serde_json::Value;

use super::sites::Site;

enum Step<'a> {
    Member(&'a str),
    Each,
    Index(usize),
    Where(&'a str, &'a str),
}

fn steps(path: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (inside, after) = after.split_once(']').unwrap_or((after, ""));
            steps.push(match (inside.parse(), inside.split_once('=')) {
                (Ok(index), _) => Step::Index(index),
                (_, Some((member, value))) => Step::Where(member, value),
                _ => Step::Each,
            });
            rest = after;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (member, after) = rest.split_at(end);
            if !member.is_empty() {
                steps.push(Step::Member(member));
            }
            rest = after;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
    }
    steps
}

/// The members that a path names, without its brackets.
pub fn members(path: &str) -> Vec<&str> {
    let steps = steps(path);
    let members = steps.iter().filter_map(|step| match step {
        Step::Member(member) => Some(*member),
        _ => None,
    });
    members.collect()
}

/// Where [`take`] looks for what is at a path: lists are gone through by brackets, and by nothing else.
pub fn follow(site: Site, path: &str) -> Option<Site> {
    steps(path).into_iter().try_fold(site, |site, step| match step {
        Step::Member(member) => site.shape.member(member).map(|member| Site::of(member.shape())),
        Step::Each | Step::Index(_) | Step::Where(..) => {
            site.shape.element().map(|element| Site::of(element.shape()))
        }
    })
}

/// What lies at a path; nothing where there is nothing or null. `lookup` finds what `$words` in filters mean.
pub fn take(value: &Value, path: &str, lookup: &dyn Fn(&str) -> Option<Value>) -> Option<Value> {
    let mut found = vec![value];
    let mut many = false;
    for step in steps(path) {
        let items = |value: &'_ Value| value.as_array().map(Vec::len).unwrap_or_default();
        found = match step {
            Step::Member(member) => found.iter().filter_map(|value| value.get(member)).collect(),
            Step::Index(index) => found.iter().filter_map(|value| value.get(index)).collect(),
            Step::Each => {
                many = true;
                found.iter().flat_map(|value| (0..items(value)).filter_map(|at| value.get(at))).collect()
            }
            Step::Where(member, wanted) => {
                let all = member.starts_with('*');
                many |= all;
                let member = member.trim_start_matches('*');
                let wanted = match wanted.strip_prefix('$') {
                    Some(word) => lookup(word)?,
                    None => Value::from(wanted),
                };
                let fits = |item: &&Value| {
                    members(member).iter().try_fold(*item, |value, word| value.get(word)) == Some(&wanted)
                };
                let fitting = found
                    .iter()
                    .flat_map(|value| (0..items(value)).filter_map(|at| value.get(at)))
                    .filter(fits);
                fitting.take(if all { usize::MAX } else { 1 }).collect()
            }
        };
    }
    found.retain(|value| !value.is_null());
    match found.as_slice() {
        _ if many => Some(found.into_iter().cloned().collect()),
        [] => None,
        [first, ..] => Some((*first).clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths() {
        let value = json!({
            "A": {"B": 1, "N": null},
            "L": [{"K": "x", "S": {"T": "on"}, "V": 1}, {"K": "y", "S": {"T": "off"}, "V": 2}],
        });
        let check = |path: &str, expected: Option<Value>| {
            let lookup = |word: &str| (word == "item").then(|| json!("y"));
            assert_eq!(take(&value, path, &lookup), expected, "{path}");
        };
        check("A.B", Some(json!(1)));
        check("A.N", None);
        check("A.C", None);
        check("", Some(value.clone()));
        check("L[].V", Some(json!([1, 2])));
        check("L[].Z", Some(json!([])));
        check("L[0].V", Some(json!(1)));
        check("L[7].V", None);
        check("L[K=x].V", Some(json!(1)));
        check("L[S.T=off].V", Some(json!(2)));
        check("L[K=$item].V", Some(json!(2)));
        check("L[K=$nothing].V", None);
        check("L[K=z].V", None);
        check("L[*K=z].V", Some(json!([])));
        check("L[*S.T=on].V", Some(json!([1])));
        assert_eq!(members("A[].B[0].C[D=E].F"), ["A", "B", "C", "F"]);
    }
}
