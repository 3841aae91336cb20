//! Modules that call others, read data, and configure providers.

use super::*;
use crate::shape;
use crate::value::Value;

const ROOT: &str = r#"
    module "net" {
      source   = "./net"
      for_each = toset(["a", "b"])
      name     = "net ${each.key}"
    }
    module "app" {
      source     = "./app"
      net        = module.net["a"].id
      depends_on = [a_b.first]
    }
    resource "a_b" "first" {
      name = "first"
    }
    output "nets" {
      value = { for key, net in module.net : key => net.id }
    }
    output "app" {
      value = module.app.id
    }
"#;
const NET: &str = r#"
    variable "name" {
      type = string
      validation {
        condition     = length(var.name) < 9
        error_message = "too long"
      }
    }
    locals {
      upper = upper(var.name)
    }
    resource "a_b" "this" {
      count = 2
      name  = "${local.upper} ${count.index}"
    }
    output "id" {
      value = a_b.this[1].id
    }
    output "word" {
      value     = "hunter22"
      sensitive = true
    }
"#;
const APP: &str = r#"
    variable "net" {}
    variable "size" {
      default = 1
    }
    resource "a_b" "this" {
      name = "app in ${var.net}"
    }
    output "id" {
      value = a_b.this.id
    }
"#;
const ALL: Files<'_> = &[("", ROOT), ("net", NET), ("app", APP)];

fn with<'a>(place: &'a str, text: &'a str) -> Vec<(&'a str, &'a str)> {
    ALL.iter().map(|(name, own)| (*name, if *name == place { text } else { *own })).collect()
}

#[test]
fn called_modules() {
    let mut there = BTreeMap::new();
    let course = decide_with(ALL, &there, &BTreeMap::new()).unwrap();
    let nets =
        ["module.net[\"a\"].a_b.this[0]", "module.net[\"a\"].a_b.this[1]", "module.net[\"b\"].a_b.this[0]"];
    let found = addresses(&course);
    assert!(nets.iter().all(|address| found.contains(address)) && found.len() == 5, "{found:?}");
    assert_eq!(find(&course, nets[1]).shown["name"], "NET A 1");
    there.extend(nets.map(|address| settled(&[], address)));
    there.extend([settled(&[], "module.net[\"b\"].a_b.this[1]")]);
    // What it needs of the net is there; what it has to come after is not.
    let course = decide_with(ALL, &there, &BTreeMap::new()).unwrap();
    assert!(!addresses(&course).contains(&"module.app.a_b.this"));
    let waits = "module.app.a_b.this waits: a_b.first is not there yet";
    assert!(course.waiting.iter().any(|why| why == waits), "{:?}", course.waiting);
    there.extend([settled(&[], "a_b.first")]);
    let course = decide_with(ALL, &there, &BTreeMap::new()).unwrap();
    let app = find(&course, "module.app.a_b.this");
    assert_eq!(app.shown["name"], "app in id of module.net[\"a\"].a_b.this[1]");
    assert_eq!(app.behind, ["a_b.first".to_owned(), "module.net.a_b.this".to_owned()].into());
    there.extend([settled(&["module.net.a_b.this"], "module.app.a_b.this")]);
    let course = decide_with(ALL, &there, &BTreeMap::new()).unwrap();
    assert!(course.waiting.is_empty(), "{:?}", course.waiting);
    assert_eq!(course.outputs["nets"]["b"], "id of module.net[\"b\"].a_b.this[1]");
    assert_eq!(course.outputs["app"], "id of module.app.a_b.this");
    // What a called module says is sensitive stays so.
    let shown = ROOT.replace("net.id }", "net.word }");
    let problem = decide_with(&with("", &shown), &there, &BTreeMap::new()).unwrap_err();
    let says = "main.tf:16: the output \"nets\" holds something sensitive and does not say so";
    assert_eq!(problem.to_string(), says);

    // Fewer of them: those that are not wanted go, unless nobody knows which are.
    let fewer = ROOT.replace("[\"a\", \"b\"]", "[\"a\"]");
    let course = decide_with(&with("", &fewer), &there, &BTreeMap::new()).unwrap();
    let gone = ["module.net[\"b\"].a_b.this[0]", "module.net[\"b\"].a_b.this[1]"];
    assert!(course.going.iter().eq(gone), "{:?}", course.going);
    let unknown = ROOT.replace("toset([\"a\", \"b\"])", "toset([a_b.first.id, \"a\"])");
    there.get_mut("a_b.first").unwrap().state = None;
    let course = decide_with(&with("", &unknown), &there, &BTreeMap::new()).unwrap();
    assert!(course.going.is_empty() && addresses(&course) == ["a_b.first"], "{:?}", course.going);
}

#[test]
fn what_is_wrong_with_calls() {
    fn check(place: &str, from: &str, to: &str, expected: &str) {
        let text = ALL.iter().find(|(name, _)| *name == place).unwrap().1.replace(from, to);
        let problem = decide_with(&with(place, &text), &BTreeMap::new(), &BTreeMap::new());
        assert_eq!(problem.expect_err(expected).to_string(), expected);
    }
    check("", "name     =", "other    =", "main.tf:2: the module \"net\" has no variable \"other\"");
    check(
        "",
        "name     = \"net ${each.key}\"",
        "",
        "main.tf:2: the variable \"name\" of the module is required",
    );
    check("", "\"net ${each.key}\"", "\"much too long\"", "net/main.tf:5: too long");
    check(
        "",
        "module.app.id",
        "module.app.colour",
        "main.tf:19: the module \"app\" has no output \"colour\"",
    );
    check(
        "",
        "[a_b.first]",
        "[module.other]",
        "main.tf:7: depends_on names module.other, which is not declared",
    );
    check("app", "${var.net}", "${var.nets}", "app/main.tf:7: there is no variable \"nets\"");
    check(
        "app",
        "    variable \"size\"",
        "    provider \"a\" {}\n    variable \"size\"",
        "app/main.tf:3: only the outermost module configures providers; pass one with providers",
    );
    let circle = "these depend on each other in a circle: module.app.var.net, module.app.a_b.this, \
        module.app.output.id";
    check("", "module.net[\"a\"].id", "module.app.id", circle);
}

#[test]
fn data_is_read_when_its_arguments_are_known() {
    const TEXT: &str = r#"
        variable "word" {
          sensitive = true
          default   = "hunter22"
        }
        resource "a_b" "c" {
          name = "c"
        }
        data "a_look" "up" {
          name        = a_b.c.id
          tags        = { word = var.word }
          depends_on  = [a_b.c]
        }
        resource "a_b" "d" {
          name        = data.a_look.up.name
          secret_word = data.a_look.up.tags["word"]
          lifecycle {
            postcondition {
              condition     = self.name != "bad"
              error_message = "${self.name} is bad"
            }
          }
        }
    "#;
    let files: Files<'_> = &[("", TEXT)];
    let mut there = BTreeMap::new();
    assert!(decide(TEXT, &there).unwrap().asked.is_empty());
    there.extend([settled(&[], "a_b.c")]);
    let course = decide(TEXT, &there).unwrap();
    assert_eq!(course.asked[0].address, "data.a_look.up");
    let config = course.asked[0].config.clone();
    assert_eq!(config.field("name").as_str(), Some("id of a_b.c"));
    let said = |said: Result<Value, String>| {
        BTreeMap::from([("data.a_look.up".to_owned(), Answer { config: config.clone(), said })])
    };
    let found = json!({"id": "1", "name": "found", "tags": {"word": "hunter22"}});
    let found = shape::desired(&thing().block, &found).unwrap();
    let course = decide_with(files, &there, &said(Ok(found))).unwrap();
    assert!(course.asked.is_empty());
    let wanted = find(&course, "a_b.d");
    assert_eq!((&wanted.shown["name"], wanted.shown.get("secretWord")), (&json!("found"), None));
    assert_eq!(wanted.secret, Some(json!({"secret_word": "hunter22"})));
    assert_eq!(wanted.behind, ["a_b.c".to_owned()].into(), "data is nothing that stands there");
    let course = decide_with(files, &there, &said(Err("no such thing".into()))).unwrap();
    assert_eq!(course.failed.as_deref(), Some("data.a_look.up: no such thing"));
    assert!(course.asked.is_empty() && addresses(&course) == ["a_b.c"]);
    // What was answered to another question is no answer.
    let other = BTreeMap::from([(
        "data.a_look.up".to_owned(),
        Answer { config: Value::Null, said: Ok(Value::Null) },
    )]);
    assert_eq!(decide_with(files, &there, &other).unwrap().asked.len(), 1);
    // A condition on what came of it.
    let mut bad = settled(&["a_b.c"], "a_b.d");
    bad.1.state = Some(Term::from_json(&json!({"id": "d", "name": "bad"})));
    there.extend([bad]);
    let found = shape::desired(&thing().block, &json!({"name": "bad", "tags": {"word": "x"}})).unwrap();
    let problem = decide_with(files, &there, &said(Ok(found))).unwrap_err();
    assert_eq!(problem.to_string(), "main.tf:19: bad is bad");
}

#[test]
fn providers_and_their_configurations() {
    const TEXT: &str = r#"
        variable "word" {
          sensitive = true
          default   = "hunter22"
        }
        provider "a" {
          alias = "west"
          name  = upper("west")
          secret_word = var.word
        }
        resource "a_b" "east" {
          name = "east"
        }
        module "inner" {
          source    = "./inner"
          providers = { a = a.west, a.other = a.west }
        }
    "#;
    const INNER: &str = "resource \"a_b\" \"c\" {\n name = \"c\"\n}\nresource \"a_b\" \"d\" {\n name = \"d\"\n provider = a.other\n}";
    let files: Files<'_> = &[("", TEXT), ("inner", INNER)];
    let none = BTreeMap::new();
    let course = decide_with(files, &none, &BTreeMap::new()).unwrap();
    assert_eq!(course.providers["a.west"], json!({"name": "WEST", "secret_word": "hunter22"}));
    let provider = |address: &str| find(&course, address).provider.clone();
    assert_eq!(
        [provider("a_b.east"), provider("module.inner.a_b.c"), provider("module.inner.a_b.d")],
        ["a", "a.west", "a.west"]
    );
    let text = TEXT.replace(", a.other = a.west", "");
    let problem = decide_with(&[("", text.as_str()), ("inner", INNER)], &none, &BTreeMap::new()).unwrap_err();
    assert_eq!(problem.to_string(), "inner/main.tf:4: the provider a.other is not passed to this module");
    // What is required may be in the Secret that it is evaluated over.
    let text = TEXT.replace("name  = upper(\"west\")", "");
    let course = decide_with(&[("", text.as_str()), ("inner", INNER)], &none, &BTreeMap::new()).unwrap();
    assert_eq!(course.providers["a.west"], json!({"secret_word": "hunter22"}));
    // What is to be configured with what is not there yet waits for it.
    let text = TEXT.replace("upper(\"west\")", "a_b.east.id");
    let course = decide_with(&[("", text.as_str()), ("inner", INNER)], &none, &BTreeMap::new()).unwrap();
    assert!(course.providers.is_empty() && addresses(&course) == ["a_b.east"]);
}

#[test]
fn functions_of_providers() {
    const TEXT: &str = r#"
        variable "word" {
          sensitive = true
          default   = "hunter22"
        }
        resource "a_b" "c" {
          name        = provider::a::f(provider::a::f("x", "1"), 2)
          secret_word = provider::a::f(var.word)
        }
        module "inner" {
          source    = "./inner"
          providers = { other = a.west }
        }
        output "made" {
          value = provider::a::f(a_b.c.name)
        }
    "#;
    const INNER: &str = "resource \"a_b\" \"d\" {\n name = provider::other::f(\"d\")\n}";
    let files: Files<'_> = &[("", TEXT), ("inner", INNER)];
    let mut there = BTreeMap::new();
    let mut returned = Returned::new();
    // As it is done: what is asked for is answered, until there is nothing more to ask.
    let mut settle = |files: Files<'_>, there: &BTreeMap<String, There>| -> Result<_, Problem> {
        for round in 1.. {
            let course = decide_knowing(files, there, &BTreeMap::new(), &returned)?;
            if course.calls.is_empty() {
                return Ok((round, course));
            }
            for calling in course.calls {
                assert_eq!((calling.provider.as_str(), calling.name.as_str()), ("a", "f"));
                let text = calling.arguments[0].as_str().unwrap().to_owned();
                let made = format!("{text}/{}", calling.arguments.len());
                let made = if text == "no" { Err("it says no".to_owned()) } else { Ok(Term::text(made)) };
                assert!(returned.insert(calling, made).is_none(), "asked twice");
            }
        }
        unreachable!()
    };
    let (rounds, course) = settle(files, &there).unwrap();
    assert_eq!((rounds, addresses(&course)), (3, vec!["a_b.c", "module.inner.a_b.d"]));
    let wanted = find(&course, "a_b.c");
    assert_eq!(wanted.shown, json!({"name": "x/2/2"}));
    assert_eq!(wanted.secret, Some(json!({"secret_word": "hunter22/1"})), "what is made of a secret is one");
    assert_eq!(find(&course, "module.inner.a_b.d").shown["name"], "d/1");
    // Outputs come last.
    there.extend([settled(&[], "a_b.c"), settled(&[], "module.inner.a_b.d")]);
    let (_, course) = settle(files, &there).unwrap();
    assert!(course.waiting.is_empty(), "{:?}", course.waiting);
    assert_eq!(course.outputs["made"], "a_b.c/1");

    let mut refused = |value: &str, expected: &str| {
        let text = format!("locals {{\n a = {value}\n}}");
        let problem = settle(&[("", text.as_str())], &BTreeMap::new());
        assert_eq!(problem.expect_err(value).to_string(), expected);
    };
    refused("provider::a::f(\"no\")", "main.tf:2: provider::a::f: it says no");
    refused(
        "provider::a::f(sensitive(\"no\"))",
        "main.tf:2: provider::a::f fails, of something sensitive that it is given",
    );
    refused("provider::a::f()", "main.tf:2: provider::a::f: it takes 1 arguments, and not 0");
    refused(
        "provider::a::f([])",
        "main.tf:2: provider::a::f: the argument \"text\": a string is required, and this is a list",
    );
    refused("provider::a::f(null)", "main.tf:2: provider::a::f: the argument \"text\": it must not be null");
    refused("other::f(1)", "main.tf:2: the function \"other::f\" is not supported");
    let tried = "output \"a\" {\n value = try(provider::a::f(\"no\"), \"else\")\n}";
    assert_eq!(settle(&[("", tried)], &BTreeMap::new()).unwrap().1.outputs["a"], "else");
    // Where nothing is known yet, nobody is asked.
    let early = "variable \"a\" {\n default = provider::a::f(\"x\")\n}";
    let problem = settle(&[("", early)], &BTreeMap::new()).expect_err(early);
    assert_eq!(problem.to_string(), "main.tf:2: functions of providers cannot be called here");
}

#[test]
fn what_is_said_about_a_resource() {
    let text = "resource \"a_b\" \"c\" {\n name = \"c\"\n lifecycle {\n create_before_destroy = true\n \
        ignore_changes = [name, tags[\"x.y\"], page[0].text]\n}\n}";
    let course = decide(text, &BTreeMap::new()).unwrap();
    let wanted = &course.wanted[0];
    assert!(wanted.create_before_destroy && !wanted.prevent_destroy);
    let paths: [&[&str]; 3] = [&["name"], &["tags", "x.y"], &["page", "0", "text"]];
    assert_eq!(
        wanted.ignored,
        paths.map(|path| path.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>())
    );
    let course =
        decide(&text.replace("[name, tags[\"x.y\"], page[0].text]", "all"), &BTreeMap::new()).unwrap();
    assert_eq!(course.wanted[0].ignored, [Vec::<String>::new()]);
}
