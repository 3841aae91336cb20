//! Go templates in the strings of an object. Pure.
//!
//! KubeFlex renders the JSON text of a whole template, so that a value with a quote in it breaks the object or adds to
//! it. Here every string is a template of its own (names of members too) and its result is a string again: whatever
//! the variables hold, the shape of the object stays. What could be said in one string there can be said here.

use std::fmt;
use std::sync::Arc;

use gotmpl::{Template, ToValue};
use objects::Value;

use crate::plane::{Plane, Variables};

/// As large as an object may be at all.
const LARGEST: usize = 1_500_000;
/// Of one `range`; there are no lists among the variables, so that only numbers can be ranged over.
const ITERATIONS: u64 = 10_000;

#[derive(thiserror::Error, Debug, PartialEq, Eq)]
pub enum TemplateError {
    #[error("{0}")]
    Template(String),
    #[error("the result is larger than {LARGEST} bytes")]
    TooLarge,
}

/// What the templates of a hook see; later ones win.
pub fn variables(defaults: &Value, plane: &Plane, vars: &Variables, hook: &str) -> Variables {
    let mut all = Variables::new();
    for one in defaults.as_array().into_iter().flatten() {
        if let (Some(name), Some(value)) = (one["name"].as_str(), one["value"].as_str()) {
            all.insert(name.to_owned(), value.to_owned());
        }
    }
    all.extend(plane.spec.global_vars.clone());
    all.extend(vars.clone());
    let system =
        [("Namespace", &plane.namespace), ("ControlPlaneName", &plane.name), ("HookName", &hook.to_owned())];
    all.extend(system.map(|(name, value)| (name.to_owned(), value.clone())));
    all
}

/// The object that a template makes of these variables.
pub fn render(template: &Value, variables: &Variables) -> Result<Value, TemplateError> {
    let entries = variables.iter().map(|(name, value)| (Arc::from(name.as_str()), value.to_value()));
    let data = gotmpl::Value::Map(Arc::new(entries.collect()));
    let mut room = LARGEST;
    object(template, &data, &mut room)
}

fn object(template: &Value, data: &gotmpl::Value, room: &mut usize) -> Result<Value, TemplateError> {
    Ok(match template {
        Value::String(source) => text(source, data, room)?.into(),
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| object(item, data, room)).collect::<Result<_, _>>()?)
        }
        Value::Object(members) => {
            let members =
                members.iter().map(|(name, value)| Ok((text(name, data, room)?, object(value, data, room)?)));
            Value::Object(members.collect::<Result<_, TemplateError>>()?)
        }
        other => other.clone(),
    })
}

fn text(source: &str, data: &gotmpl::Value, room: &mut usize) -> Result<String, TemplateError> {
    let mut out = Bounded { text: String::new(), room: *room };
    if source.contains("{{") {
        let template = Template::new("hook").max_range_iters(ITERATIONS).parse(source);
        let done = template.and_then(|template| template.execute_fmt(&mut out, data));
        match done {
            Err(_) if out.room == 0 => return Err(TemplateError::TooLarge),
            done => done.map_err(|error| TemplateError::Template(error.to_string()))?,
        }
    } else {
        fmt::Write::write_str(&mut out, source).map_err(|_| TemplateError::TooLarge)?;
    }
    *room = out.room;
    Ok(out.text)
}

/// Text that does not grow without end.
struct Bounded {
    text: String,
    room: usize,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        match self.room.checked_sub(more.len()) {
            Some(room) => {
                self.room = room;
                self.text.push_str(more);
                Ok(())
            }
            None => {
                self.room = 0;
                Err(fmt::Error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn vars() -> Variables {
        let pairs = [("Name", "x"), ("Quote", "a\"b\\c\n"), ("Yes", "true"), ("Empty", "")];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[track_caller]
    fn check(template: &str, expected: &str) {
        assert_eq!(render(&json!({"a": template}), &vars()), Ok(json!({"a": expected})), "{template}");
    }

    #[test]
    fn strings_are_go_templates() {
        check("plain", "plain");
        check("{{.Name}}", "x");
        check("{{ .Name }}-{{.Name}}", "x-x");
        check("a {{- .Name -}} b", "axb");
        check("{{.Missing}}", "<no value>");
        check("{{if .Yes}}y{{else}}n{{end}}", "y");
        check("{{if .Empty}}y{{else}}n{{end}}", "n");
        check("{{if .Missing}}y{{else}}n{{end}}", "n");
        check("{{with .Name}}[{{.}}]{{end}}", "[x]");
        check("{{if eq .Name `x`}}same{{end}}", "same");
        check("{{if and .Yes (not .Empty)}}both{{end}}", "both");
        check("{{if or .Empty .Name}}one{{end}}", "one");
        check("{{if ne .Name \"y\"}}other{{end}}", "other");
        check("{{printf `%s-%s` .Name .Yes}}", "x-true");
        check("{{index . `Name`}}", "x");
        check("{{len .Name}}", "1");
        check("{{/* nothing */}}", "");
    }

    #[test]
    fn values_never_change_the_shape_of_the_object() {
        check("<{{.Quote}}>", "<a\"b\\c\n>");
        let template = json!({"{{.Name}}": ["{{.Quote}}", 1, true, null, {"b": "{{.Name}}"}]});
        assert_eq!(render(&template, &vars()), Ok(json!({"x": ["a\"b\\c\n", 1, true, null, {"b": "x"}]})));
    }

    #[test]
    fn what_is_no_template_is_refused_and_what_is_too_large_too() {
        for template in ["{{", "{{.Name", "{{nofunction}}", "{{template `x`}}"] {
            assert!(
                matches!(render(&json!([template]), &vars()), Err(TemplateError::Template(_))),
                "{template}"
            );
        }
        let doubling =
            "{{define `a`}}xxxxxxxxxxxxxxxx{{end}}".to_owned() + &"{{template `a`}}".repeat(100_000);
        assert_eq!(render(&json!([doubling]), &vars()), Err(TemplateError::TooLarge));
    }

    #[test]
    fn precedence() {
        let plane = Plane::read(json!({
            "metadata": {"name": "cp1"},
            "spec": {"type": "k8s", "globalVars": {"B": "global", "C": "global", "ControlPlaneName": "mine"}},
        }));
        let defaults = json!([
            {"name": "A", "value": "default"}, {"name": "B", "value": "default"}, {"name": "C", "value": "default"},
        ]);
        let vars = [("C".to_owned(), "use".to_owned()), ("HookName".to_owned(), "mine".to_owned())];
        let all = variables(&defaults, &plane.unwrap(), &vars.into_iter().collect(), "h");
        let shown: Vec<String> = all.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let expected =
            ["A=default", "B=global", "C=use", "ControlPlaneName=cp1", "HookName=h", "Namespace=cp1-system"];
        assert_eq!(shown, expected);
    }
}
