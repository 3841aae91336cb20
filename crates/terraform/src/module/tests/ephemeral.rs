//! What is open only for a while: where it may go, and what is known of it while it is closed and while it is open.

use super::*;
use crate::module::course::Opens;
use crate::value::Value;

/// Everything that is ephemeral came to this.
fn opened(course: &Course) -> BTreeMap<String, Answer> {
    let text = |asked: &course::Asked| {
        let fields = [("id".to_owned(), Value::string(format!("opened {}", asked.address)))];
        Answer { config: asked.config.clone(), said: Ok(Value::Fields(fields.into())) }
    };
    course.asked.iter().map(|asked| (asked.address.clone(), text(asked))).collect()
}

/// The course when nothing is open, and when everything is.
fn both(files: Files<'_>, there: &BTreeMap<String, There>) -> (Course, Course) {
    let closed = decide_with(files, there, &BTreeMap::new()).unwrap();
    assert!(closed.asked.is_empty(), "nothing is opened that nobody needs");
    let mut answers = BTreeMap::new();
    loop {
        let open = decide_when(files, there, &answers, &Returned::new(), true).unwrap();
        if open.asked.is_empty() {
            return (closed, open);
        }
        answers.extend(opened(&open));
    }
}

#[test]
fn values_are_known_while_it_is_open() {
    fn check(arguments: &str, expected: &str) {
        let text = format!(
            r#"
            variable "token" {{
              ephemeral = true
              default   = "t"
            }}
            locals {{
              login = {{ user = "u", password = ephemeral.a_key.k.id }}
            }}
            ephemeral "a_key" "k" {{
              name = "k"
            }}
            ephemeral "a_key" "each" {{
              for_each = toset(["x"])
              name     = each.key
            }}
            resource "a_host" "h" {{
              name = local.login.user
              {arguments}
            }}"#
        );
        let (closed, open) = both(&[("", &text)], &BTreeMap::new());
        let (closed, open) = (find(&closed, "a_host.h"), find(&open, "a_host.h"));
        assert_eq!((&closed.shown, &closed.secret), (&json!({"name": "u"}), &None), "{arguments}");
        assert_eq!(closed.opens, Opens { arguments: true, provider: false }, "{arguments}");
        assert_eq!(open.secret, Some(json!({"word_wo": expected})), "{arguments}");
        assert_eq!(open.shown, closed.shown);
    }
    check("word_wo = ephemeral.a_key.k.id", "opened ephemeral.a_key.k");
    check("word_wo = ephemeral.a_key.each[\"x\"].id", "opened ephemeral.a_key.each[\"x\"]");
    check("word_wo = local.login.password", "opened ephemeral.a_key.k");
    check("word_wo = jsonencode([local.login.password])", "[\"opened ephemeral.a_key.k\"]");
    check("word_wo = \"${var.token}-${upper(var.token)}\"", "t-T");
    check("word_wo = true ? var.token : \"none\"", "t");
    check("word_wo = try(local.login.password, \"none\")", "opened ephemeral.a_key.k");
    check("word_wo = merge(local.login, { user = \"v\" }).password", "opened ephemeral.a_key.k");
    check("word_wo = [for word in [var.token] : word][0]", "t");
    check("word_wo = join(\"\", [local.login][*].password)", "opened ephemeral.a_key.k");
    check("word_wo = var.token == \"t\" ? \"yes\" : \"no\"", "yes");
}

#[test]
fn it_goes_where_nothing_is_kept() {
    fn check(arguments: &str, says: &str) {
        let text = format!(
            r#"
            ephemeral "a_key" "k" {{
              name = "k"
            }}
            resource "a_host" "h" {{
              name = "h"
              {arguments}
            }}"#
        );
        let problem = decide(&text, &BTreeMap::new()).unwrap_err();
        assert_eq!(problem.to_string(), format!("main.tf:7: {says}"), "{arguments}");
    }
    let kept = "an ephemeral value is given to an argument that is not write-only";
    check("secret_word = ephemeral.a_key.k.id", kept);
    check("tags = { a = ephemeral.a_key.k.id }", kept);
    check("tags = { a = length(ephemeral.a_key.k.id) }", kept);
    check("count = length(ephemeral.a_key.k.id)", "this must not be an ephemeral value");
    check("word_wo = ephemeral.a_key.l.id", "there is no resource ephemeral.a_key.l");

    for (text, says) in [
        (
            "output \"o\" { value = [ephemeral.a_key.k.id] }",
            "main.tf:1: the output \"o\" holds something ephemeral, and is kept",
        ),
        (
            "output \"o\" {\n value = 1\n ephemeral = true\n }",
            "main.tf:2: the output \"o\" is kept; only those of called modules are ephemeral",
        ),
        (
            "data \"a_host\" \"d\" { name = ephemeral.a_key.k.id }",
            "main.tf:1: an ephemeral value is given to an argument that is not write-only",
        ),
    ] {
        let text = format!("{text}\nephemeral \"a_key\" \"k\" {{ name = \"k\" }}");
        assert_eq!(decide(&text, &BTreeMap::new()).unwrap_err().to_string(), says);
    }
    // What is null instead is not ephemeral.
    let text = r#"
        ephemeral "a_key" "k" {
          name = "k"
        }
        output "o" {
          value = ephemeralasnull({ a = 1, b = ephemeral.a_key.k.id })
        }"#;
    let (closed, open) = both(&[("", text)], &BTreeMap::new());
    assert_eq!(json!(closed.outputs), json!({"o": {"a": 1, "b": null}}));
    assert_eq!(json!(open.outputs), json!(closed.outputs));
}

#[test]
fn between_modules_it_is_called_by_its_name() {
    let lender = |said: &str| {
        format!(
            "output \"key\" {{\n value = ephemeral.a_key.k.id\n {said}\n}}\nephemeral \"a_key\" \"k\" {{ name = \"k\" }}"
        )
    };
    let user = |said: &str| {
        format!(
            "variable \"key\" {{\n {said}\n}}\nresource \"a_host\" \"h\" {{\n name = \"h\"\n word_wo = var.key\n}}"
        )
    };
    let root = "module \"lender\" { source = \"./lender\" }\nmodule \"user\" {\n source = \"./user\"\n key = module.lender.key\n}";
    let (yes, no) = ("ephemeral = true", "");
    let files = |lends, uses| [("", root.to_owned()), ("lender", lender(lends)), ("user", user(uses))];
    let decided = |lends, uses| {
        let files = files(lends, uses);
        let files: Vec<(&str, &str)> = files.iter().map(|(place, text)| (*place, text.as_str())).collect();
        decide_with(&files, &BTreeMap::new(), &BTreeMap::new()).map_err(|problem| problem.to_string())
    };
    assert_eq!(
        decided(no, yes).unwrap_err(),
        "lender/main.tf:2: the output \"key\" holds something ephemeral, and does not say so"
    );
    assert_eq!(
        decided(yes, no).unwrap_err(),
        "main.tf:2: the variable \"key\" is given something ephemeral, and does not say so"
    );
    let files = files(yes, yes);
    let files: Vec<(&str, &str)> = files.iter().map(|(place, text)| (*place, text.as_str())).collect();
    let (closed, open) = both(&files, &BTreeMap::new());
    assert!(find(&closed, "module.user.a_host.h").opens.arguments);
    let secret = json!({"word_wo": "opened module.lender.ephemeral.a_key.k"});
    assert_eq!(find(&open, "module.user.a_host.h").secret, Some(secret));
}

#[test]
fn what_it_needs_is_waited_for() {
    let text = r#"
        resource "a_host" "first" {
          name = "first"
        }
        ephemeral "a_key" "k" {
          name = a_host.first.id
        }
        ephemeral "a_key" "l" {
          name = ephemeral.a_key.k.id
        }
        provider "a" {
          name    = "a"
          word_wo = ephemeral.a_key.l.id
        }
        resource "b_host" "second" {
          name     = "second"
          provider = a
        }"#
    .replace("ephemeral \"a_key\"", "ephemeral \"b_key\"")
    .replace("ephemeral.a_key", "ephemeral.b_key")
    .replace("resource \"a_host\"", "resource \"b_host\"")
    .replace("a_host.first", "b_host.first");
    let course = decide(&text, &BTreeMap::new()).unwrap();
    assert_eq!(addresses(&course), ["b_host.first"]);
    let there = BTreeMap::from([settled(&[], "b_host.first")]);
    let (closed, open) = both(&[("", &text)], &there);
    assert_eq!(addresses(&closed), ["b_host.first", "b_host.second"]);
    assert_eq!(find(&closed, "b_host.second").opens, Opens { arguments: false, provider: true });
    assert_eq!(find(&closed, "b_host.second").behind, ["b_host.first".to_owned()].into());
    assert_eq!(find(&closed, "b_host.first").opens, Opens::default());
    assert_eq!((&closed.providers["a"], &closed.opening), (&json!({"name": "a"}), &["a".to_owned()].into()));
    assert_eq!(open.providers["a"]["word_wo"], "opened ephemeral.b_key.l");
}
