//! Answers that come in pages.

use serde_json::Map;

use super::CallError;
use crate::model::{Paginator, Service};
use crate::value::Value;

/// More pages than anything real has: a service that never ends must not take us along.
const MOST: usize = 1000;

/// The pages of one answer.
pub struct Pages<'a> {
    paginator: Option<&'a Paginator>,
    /// The input of the next page; none when there is none.
    next: Option<Value>,
    answer: Value,
    count: usize,
}

impl<'a> Pages<'a> {
    pub fn new(service: &'a Service, operation: &str, input: &Value) -> Pages<'a> {
        let input = if input.is_null() { Value::Object(Map::new()) } else { input.clone() };
        Pages { paginator: service.paginator(operation), next: Some(input), answer: Value::Null, count: 0 }
    }

    /// What to ask for next; nothing after the last page.
    pub fn next_input(&self) -> Option<Value> {
        self.next.clone()
    }

    /// Takes the answer to [`Pages::next_input`].
    pub fn add(&mut self, answer: Value) -> Result<(), CallError> {
        self.count += 1;
        let asked = self.next.take();
        self.next = self.paginator.and_then(|paginator| next_input(paginator, asked.as_ref()?, &answer));
        if self.next.is_some() && (self.next == asked || self.count >= MOST) {
            let message = "the service answers with pages that do not end".to_owned();
            return Err(CallError::local("EndlessPages", message));
        }
        if self.answer.is_null() {
            self.answer = answer;
            return Ok(());
        }
        for key in self.paginator.into_iter().flat_map(|paginator| &paginator.result_key) {
            join(&mut self.answer, &answer, key);
        }
        Ok(())
    }

    pub fn into_answer(self) -> Value {
        self.answer
    }
}

fn next_input(paginator: &Paginator, asked: &Value, answer: &Value) -> Option<Value> {
    if let Some(more) = &paginator.more_results
        && find(answer, more).and_then(Value::as_bool) == Some(false)
    {
        return None;
    }
    let mut next = asked.clone();
    let members = next.as_object_mut()?;
    let mut any = false;
    for (input, output) in paginator.input_token.iter().zip(&paginator.output_token) {
        match find(answer, output).filter(|token| !is_empty(token)) {
            Some(token) => {
                members.insert(input.to_string(), token.clone());
                any = true;
            }
            None => {
                members.remove(input.as_ref());
            }
        }
    }
    any.then_some(next)
}

fn is_empty(token: &Value) -> bool {
    match token {
        Value::Null => true,
        Value::String(text) => text.is_empty() || text == "None",
        _ => false,
    }
}

/// The value at the first of the alternatives (`A || B[-1].C`) that has one.
fn find<'v>(answer: &'v Value, path: &str) -> Option<&'v Value> {
    path.split("||").find_map(|path| {
        path.trim().split('.').try_fold(answer, |value, word| match word.strip_suffix("[-1]") {
            Some(list) => value.get(list)?.as_array()?.last(),
            None => value.get(word),
        })
    })
}

fn join(into: &mut Value, from: &Value, path: &str) {
    let Some(Value::Array(more)) = find(from, path) else { return };
    let mut place = into;
    for word in path.split('.') {
        let Value::Object(members) = place else { return };
        place = members.entry(word.to_owned()).or_insert(Value::Null);
    }
    match place {
        Value::Array(have) => have.extend(more.iter().cloned()),
        place => *place = Value::Array(more.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::service;

    #[test]
    fn pages_are_joined() {
        let ec2 = service("ec2").unwrap();
        let mut pages = Pages::new(ec2, "DescribeVpcs", &json!({"MaxResults": 5}));
        assert_eq!(pages.next_input(), Some(json!({"MaxResults": 5})));
        pages.add(json!({"Vpcs": [{"VpcId": "a"}], "NextToken": "t"})).unwrap();
        assert_eq!(pages.next_input(), Some(json!({"MaxResults": 5, "NextToken": "t"})));
        pages.add(json!({"Vpcs": [{"VpcId": "b"}], "NextToken": ""})).unwrap();
        assert_eq!(pages.next_input(), None);
        assert_eq!(pages.into_answer()["Vpcs"], json!([{"VpcId": "a"}, {"VpcId": "b"}]));
    }

    #[test]
    fn a_token_that_comes_again_ends_it() {
        let mut pages = Pages::new(service("ec2").unwrap(), "DescribeVpcs", &Value::Null);
        pages.add(json!({"Vpcs": [], "NextToken": "t"})).unwrap();
        assert!(pages.add(json!({"Vpcs": [], "NextToken": "t"})).is_err());
    }
}
