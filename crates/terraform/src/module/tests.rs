//! Modules without any control plane: expressions, declarations, and what is to be done.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::config::Module;
use super::course::{self, Course, Situation, There, Wanted};
use super::expression::{Budget, Names, Scope};
use super::graph::Graph;
use super::inputs::inputs;
use super::problem::{File, Problem};
use super::term::Term;
use crate::schema::{Block, Member, Nested, Nesting, Schema, Shape};
use crate::value::Type;

struct Around;

impl Names for Around {
    fn variable(&self, name: &str) -> Result<Term, Problem> {
        match name {
            "list" => Ok(Term::from_json(&json!(["a", "b", "c"]))),
            "map" => Ok(Term::from_json(&json!({"x": 1, "y": 2}))),
            "password" => Ok(Term::text("hunter22").secret()),
            "users" => Ok(Term::from_json(&json!([{"name": "ann", "age": 30}, {"name": "bob", "age": 20}]))),
            "null" => Ok(Term::Null),
            _ => Err(Problem::new("no such variable")),
        }
    }

    fn local(&self, _: &str) -> Result<Term, Problem> {
        Err(Problem::Pending("it is not there yet".into()))
    }

    fn resource(&self, _: &str, _: &str) -> Result<Term, Problem> {
        Ok(Term::from_json(&json!([{"id": "1"}, {"id": "2"}])))
    }
}

fn evaluate(text: &str) -> Result<Term, Problem> {
    let file = File { name: "main.tf".into(), text: text.to_owned() };
    let expression = hcl_edit::parser::parse_expr(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    Scope::new(&file, &Around, &Budget::default()).evaluate(&expression)
}

#[test]
fn expressions() {
    fn check(text: &str, expected: Json) {
        let term = evaluate(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
        assert_eq!((term.to_json(), term.has_secret()), (expected, false), "{text}");
    }
    check("1 + 2 * 3", json!(7));
    check("(1 + 2) * 3 - -1", json!(10));
    check("7 / 2", json!(3.5));
    check("7 % 4", json!(3));
    check("1 < 2 && !(2 >= 3) || false", json!(true));
    check("9007199254740993 + 1", json!(9_007_199_254_740_994_i64));
    check("1 == 1.0", json!(true));
    check(r#"1 == "1""#, json!(false));
    check("null == var.null", json!(true));
    check(r#"true ? "yes" : "no""#, json!("yes"));
    check("[1, \"a\", true, null]", json!([1, "a", true, null]));
    check("{ a = 1, \"b\" = 2, (var.list[0]) = 3 }", json!({"a": 3, "b": 2}));
    check(r#""${var.list[1]}-${var.map.x}""#, json!("b-1"));
    check(r#""${var.map}""#, json!({"x": 1, "y": 2}));
    check(r#""$${var.map} %%{if}""#, json!("${var.map} %{if}"));
    check(r#""%{ if var.map.x == 1 }one%{ else }other%{ endif }""#, json!("one"));
    check(r#""%{ for one in var.list ~} ${one},  %{~ endfor }""#, json!("a,b,c,"));
    check("var.map[\"y\"]", json!(2));
    check("var.list[2]", json!("c"));
    check("var.list.0", json!("a"));
    check("var.users[*].name", json!(["ann", "bob"]));
    check("var.users.*.age", json!([30, 20]));
    check("var.null[*].name", json!([]));
    check("var.map[*].x", json!([1]));
    check("memo_note.a[*].id", json!(["1", "2"]));
    check("memo_note.a[1].id", json!("2"));
    check("[for one in var.list : upper(one) if one != \"b\"]", json!(["A", "C"]));
    check("[for at, one in var.list : \"${at}${one}\"]", json!(["0a", "1b", "2c"]));
    check("{ for key, value in var.map : key => value * 10 }", json!({"x": 10, "y": 20}));
    check(
        "{ for user in var.users : user.age > 25 ? \"old\" : \"young\" => user.name... }",
        json!({"old": ["ann"], "young": ["bob"]}),
    );
    check("try(var.map.nothing, var.map.x)", json!(1));
    check("can(var.map.nothing)", json!(false));
    check("path.module", json!("."));
    check("nonsensitive(var.password)", json!("hunter22"));
    check("<<-EOT\n  one\n    two\n  EOT", json!("one\n  two\n"));
    let listed = "<<-EOT\n    %{ for one in var.list ~}\n    - ${one}\n      %{ endfor ~}\n    .\n  EOT";
    check(listed, json!("- a\n  - b\n  - c\n  .\n"));
}

#[test]
fn functions() {
    fn check(text: &str, expected: Json) {
        let term = evaluate(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
        assert_eq!(term.to_json(), expected, "{text}");
    }
    check(
        r#"format("%s-%03d %.2f %q %5s|%-4s|%%", "a", 7, 1.5, "x", "r", "l")"#,
        json!("a-007 1.50 \"x\"     r|l   |%"),
    );
    check(r#"formatlist("%s-%s", ["a", "b"], "z")"#, json!(["a-z", "b-z"]));
    check(r#"join(",", concat(["a"], ["b", "c"]))"#, json!("a,b,c"));
    check(r#"split(",", "a,b")"#, json!(["a", "b"]));
    check(r#"replace("hello", "/l+/", "L")"#, json!("heLo"));
    check(r#"replace("a.b", ".", "-")"#, json!("a-b"));
    check(r#"regex("([a-z]+)([0-9]+)", "abc123")"#, json!(["abc", "123"]));
    check(r#"regexall("[0-9]", "a1b2")"#, json!(["1", "2"]));
    check(r#"substr("hello", -3, 2)"#, json!("ll"));
    check(r#"title("hello world")"#, json!("Hello World"));
    check(r#"trim("?!hi!?", "!?")"#, json!("hi"));
    check(r#"indent(2, "a\nb")"#, json!("a\n  b"));
    check("merge({a = 1}, null, {b = 2})", json!({"a": 1, "b": 2}));
    check("lookup({a = 1}, \"b\", 3)", json!(3));
    check("flatten([[1], [2, [3]]])", json!([1, 2, 3]));
    check("distinct([1, 2, 1])", json!([1, 2]));
    check("toset([\"b\", \"a\", \"b\"])", json!(["a", "b"]));
    check("setsubtract([1, 2], [2])", json!([1]));
    check("setproduct([\"a\", \"b\"], [1])", json!([["a", 1], ["b", 1]]));
    check("zipmap([\"a\"], [1])", json!({"a": 1}));
    check("element([1, 2], 3)", json!(2));
    check("slice([1, 2, 3], 1, 3)", json!([2, 3]));
    check("range(3)", json!([0, 1, 2]));
    check("range(3, 0, -2)", json!([3, 1]));
    check("max(3, [1, 5]...)", json!(5));
    check("coalesce(null, \"\", \"x\")", json!("x"));
    check("one([])", json!(null));
    check("sum([0.1, 0.2])", json!(0.3));
    check("ceil(1.2) + floor(1.8) + abs(-1)", json!(4));
    check("parseint(\"ff\", 16)", json!(255));
    check("jsonencode({b = [1], a = null})", json!("{\"a\":null,\"b\":[1]}"));
    check("jsondecode(\"[1]\")[0]", json!(1));
    check("base64decode(base64encode(\"hé\"))", json!("hé"));
    check("urlencode(\"a b/ü\")", json!("a+b%2F%C3%BC"));
    check("cidrsubnet(\"10.0.0.0/16\", 8, 3)", json!("10.0.3.0/24"));
    check("cidrhost(\"10.0.3.0/24\", -2)", json!("10.0.3.254"));
    check("cidrnetmask(\"10.0.0.0/20\")", json!("255.255.240.0"));
    check("cidrsubnet(\"fd00::/48\", 16, 255)", json!("fd00:0:0:ff::/64"));
    check("tonumber(\"1.5\") + 1", json!(2.5));
    check("tolist(toset([2, 1]))", json!([1, 2]));
    check("length(\"hé\") + length({a = 1})", json!(3));
}

#[test]
fn what_has_no_value() {
    fn check(text: &str, expected: &str) {
        let problem = evaluate(text).expect_err(text).to_string();
        assert_eq!(problem, expected, "{text}");
        assert!(!problem.contains("hunter22"));
    }
    check("1 + \"x\"", "main.tf:1: a number is required, and this is a string");
    check("var.map.z", "main.tf:1: there is no attribute \"z\"");
    check("var.list[3]", "main.tf:1: the list has no such element");
    check("[\n1,\nvar.list.x]", "main.tf:3: a list has no attribute \"x\"");
    check("1 / 0", "main.tf:1: this has no result that is a number");
    check("tonumber(var.password)", "main.tf:1: tonumber: a number is required, and this is a string");
    check("toset([1])[0]", "main.tf:1: a set has no element to choose");
    check("each.key", "main.tf:1: each is only there where it is repeated");
    check(
        "{ for one in [1, 1] : \"k\" => one }",
        "main.tf:1: two elements have the same key; ... would group them",
    );
    check("try(local.later, 1)", "it is not there yet");
    check("format(\"%d\", 1.5)", "main.tf:1: format: a whole number is required");
    let greedy = "[for a in range(1000) : [for b in range(1000) : [for c in range(1000) : 1]]]";
    check(greedy, "main.tf:1: the module's expressions make too much of too little");
    check("format(\"%999999999s\", 1)", "main.tf:1: format: the pattern asks for too wide a column");
}

#[test]
fn what_is_secret_stays_so() {
    for text in [
        "var.password",
        "\"x${var.password}\"",
        "upper(var.password)",
        "var.password == \"x\"",
        "[var.password]",
        "{ a = var.password }.a",
        "true ? var.password : 1",
        "[for one in [var.password] : one]",
        "toset([var.password])",
        "sensitive(1)",
        "flatten([[var.password]])[0]",
        "concat([1], [var.password])[1]",
        "jsonencode([var.password])",
    ] {
        assert!(evaluate(text).unwrap().has_secret(), "{text}");
    }
    for text in ["length([var.password])", "concat([1], [var.password])[0]", "{ a = 1, b = var.password }.a"]
    {
        assert!(!evaluate(text).unwrap().has_secret(), "{text}");
    }
}

// Declarations.

fn module(text: &str) -> Result<(Module, Graph), Problem> {
    let file = Arc::new(File { name: "main.tf".into(), text: text.to_owned() });
    let module = Module::parse(&[file])?;
    let graph = Graph::of(&module)?;
    Ok((module, graph))
}

#[test]
fn what_is_not_supported_is_refused_with_its_place() {
    fn check(text: &str, expected: &str) {
        let refused = module(text).map(drop).expect_err(text);
        assert_eq!(refused.to_string(), expected, "{text}");
    }
    check(
        "resource \"a\" \"b\" {\n",
        "main.tf:1: this cannot be read: invalid block body; expected `}`, newline or identifier",
    );
    check(
        "\ndata \"a\" \"b\" {}",
        "main.tf:2: data sources are not supported; give what they would find as a variable",
    );
    check(
        "module \"a\" {}",
        "main.tf:1: calls of other modules are not supported; make a Module object of each",
    );
    check(
        "provider \"aws\" {}",
        "main.tf:1: provider blocks are not supported; the provider's configuration is the Secret of spec.providerRef",
    );
    check(
        "terraform {\n  backend \"s3\" {}\n}",
        "main.tf:2: backends are not supported; the state of each resource is kept beside its object",
    );
    check(
        "resource \"a_b\" \"c\" {\n  provisioner \"local-exec\" {}\n}",
        "main.tf:2: provisioners are not supported",
    );
    check(
        "resource \"a_b\" \"c\" {\n  provider = aws.west\n}",
        "main.tf:2: aliases of providers are not supported",
    );
    check(
        "resource \"a_b\" \"c\" {\n  lifecycle {\n    ignore_changes = [x]\n  }\n}",
        "main.tf:3: ignore_changes is not supported",
    );
    check("locals {\n  a = file(\"x\")\n}", "main.tf:2: the function \"file\" is not supported");
    check("output \"a\" {\n  value = var.b\n}", "main.tf:2: there is no variable \"b\"");
    check("output \"a\" {\n  value = a_b.c.id\n}", "main.tf:2: there is no resource a_b.c");
    check("output \"a\" {\n  value = data.a_b.c.id\n}", "main.tf:2: references to data are not supported");
    check("locals {\n  a = each.key\n}", "main.tf:2: each is only there in a resource that has its argument");
    check(
        "locals {\n  a = local.b\n  b = local.a\n}",
        "these depend on each other in a circle: local.a, local.b",
    );
    check("variable \"a\" {\n  type = text\n}", "main.tf:2: this is not a type");
    check("variable \"a\" {}\nvariable \"a\" {}", "main.tf:2: this variable is declared twice");
    check("variable \"a\" {\n  default = var.b\n}", "main.tf:2: a constant is required here");
}

#[test]
fn variables() {
    let (module, _) = module(
        r#"
        variable "plain" {}
        variable "node_count" {
          type    = number
          default = 2
          validation {
            condition     = var.node_count < 10
            error_message = "there are at most 9"
          }
        }
        variable "settings" {
          type = object({ name = string, size = optional(number, 3), tags = optional(map(string)) })
          default = { name = "x" }
        }
        variable "zones" {
          type    = set(string)
          default = []
        }
        variable "password" {
          sensitive = true
          default   = "none"
        }
        "#,
    )
    .unwrap();
    let given = |shown: Json, secret: Option<Json>| {
        inputs(&module, &shown, secret.as_ref(), &Budget::default()).map_err(|problem| problem.to_string())
    };
    let good = given(json!({"plain": 1, "nodeCount": "3", "zones": ["b", "a", "b"]}), None).unwrap();
    assert_eq!(good["node_count"].to_json(), json!(3));
    assert_eq!(good["zones"].to_json(), json!(["a", "b"]));
    assert_eq!(good["settings"].to_json(), json!({"name": "x", "size": 3, "tags": null}));
    assert!(good["password"].has_secret() && !good["plain"].has_secret());
    let good = given(json!({}), Some(json!({"plain": "p", "password": "q"}))).unwrap();
    assert!(good["plain"].has_secret() && good["password"].to_json() == "q");
    let bad = |shown: Json, expected: &str| assert_eq!(given(shown, None).unwrap_err(), expected);
    bad(json!({}), "the variable \"plain\" (main.tf:2) is required");
    bad(json!({"plain": 1, "other": 1}), "spec.resource.input: the module has no variable for \"other\"");
    bad(json!({"plain": 1, "nodeCount": 12}), "main.tf:7: there are at most 9");
    bad(
        json!({"plain": 1, "nodeCount": "many"}),
        "the variable \"node_count\" (main.tf:3): a number is required, and this is a string",
    );
    bad(
        json!({"plain": 1, "settings": {"name": "x", "size": []}}),
        "the variable \"settings\" (main.tf:11): size: a number is required, and this is a list",
    );
    bad(
        json!({"plain": 1, "password": "q"}),
        "spec.resource.input: \"password\" is sensitive; give it in the Secret of spec.secretRef",
    );
}

// What is to be done.

fn member(shape: Shape) -> Member {
    Member {
        shape,
        required: false,
        optional: true,
        computed: false,
        sensitive: false,
        write_only: false,
        deprecated: false,
        description: String::new(),
    }
}

fn thing() -> Arc<Schema> {
    let text = || Shape::Plain(Type::String);
    let page = Block { members: BTreeMap::from([("text".to_owned(), member(text()))]), ..Block::default() };
    let nested = Nested { nesting: Nesting::List, block: page, is_block: true, min_items: 0, max_items: 0 };
    let members = BTreeMap::from([
        ("id".to_owned(), Member { optional: false, computed: true, ..member(text()) }),
        ("name".to_owned(), Member { required: true, optional: false, ..member(text()) }),
        ("tags".to_owned(), member(Shape::Plain(Type::Map(Box::new(Type::String))))),
        ("secret_word".to_owned(), Member { sensitive: true, ..member(text()) }),
        ("page".to_owned(), member(Shape::Nested(Box::new(nested)))),
    ]);
    Arc::new(Schema::new(0, Block { members, ..Block::default() }))
}

/// Decides about a module when these are there, all of them as wanted.
fn decide(text: &str, there: &BTreeMap<String, There>) -> Result<Course, Problem> {
    let (module, graph) = module(text)?;
    let budget = Budget::default();
    let given = inputs(&module, &json!({}), None, &budget)?;
    course::course(&Situation {
        module: &module,
        graph: &graph,
        inputs: &given,
        schema: &|_| Ok(thing()),
        there,
        fits: &|_| true,
        budget: &budget,
    })
}

fn settled(behind: &[&str], address: &str) -> (String, There) {
    let resource = address.split('[').next().unwrap().to_owned();
    let state = Term::from_json(&json!({"id": format!("id of {address}"), "name": address}));
    let there = There {
        resource,
        behind: behind.iter().map(|one| (*one).to_owned()).collect(),
        state: Some(state),
        ..There::default()
    };
    (address.to_owned(), there)
}

fn addresses(course: &Course) -> Vec<&str> {
    course.wanted.iter().map(|wanted| wanted.address.as_str()).collect()
}

fn find<'a>(course: &'a Course, address: &str) -> &'a Wanted {
    course.wanted.iter().find(|wanted| wanted.address == address).unwrap()
}

const NETWORK: &str = r#"
    locals {
      names  = toset(["x", "y"])
      joined = join(",", a_net.main[*].id)
    }
    resource "a_net" "main" {
      count = 2
      name  = "net-${count.index}"
      tags  = { kind = null, at = count.index }
    }
    resource "a_host" "each" {
      for_each = local.names
      name     = "${each.key} in ${local.joined}"
      dynamic "page" {
        for_each = [1, 2]
        content {
          text = "page ${page.value}"
        }
      }
    }
    resource "a_host" "alone" {
      name       = "alone"
      depends_on = [a_host.each]
    }
    output "host_ids" {
      value = { for key, host in a_host.each : key => host.id }
    }
"#;

#[test]
fn one_after_the_other() {
    let mut there = BTreeMap::new();
    let course = decide(NETWORK, &there).unwrap();
    assert_eq!(addresses(&course), ["a_net.main[0]", "a_net.main[1]"]);
    assert_eq!(course.wanted[1].shown, json!({"name": "net-1", "tags": {"at": "1"}}));
    let says = |course: &Course, text: &str| course.waiting.iter().any(|waiting| waiting == text);
    assert!(
        says(&course, "a_host.each[\"x\"] waits: a_net.main[0] is not there yet"),
        "{:?}",
        course.waiting
    );
    assert!(course.outputs.is_empty() && course.going.is_empty());

    there.extend([settled(&[], "a_net.main[0]"), settled(&[], "a_net.main[1]")]);
    let course = decide(NETWORK, &there).unwrap();
    assert_eq!(addresses(&course).len(), 4, "those that are known to be right are written as well");
    let host = find(&course, "a_host.each[\"y\"]");
    assert_eq!(host.shown["name"], "y in id of a_net.main[0],id of a_net.main[1]");
    assert_eq!(host.shown["page"], json!([{"text": "page 1"}, {"text": "page 2"}]));
    assert_eq!(host.behind, ["a_net.main".to_owned()].into());

    there.extend(["a_host.each[\"x\"]", "a_host.each[\"y\"]"].map(|one| settled(&["a_net.main"], one)));
    let course = decide(NETWORK, &there).unwrap();
    assert_eq!(find(&course, "a_host.alone").behind.len(), 2);
    there.extend([settled(&["a_net.main", "a_host.each"], "a_host.alone")]);
    let course = decide(NETWORK, &there).unwrap();
    assert!(course.waiting.is_empty(), "{:?}", course.waiting);
    let ids = json!({"x": "id of a_host.each[\"x\"]", "y": "id of a_host.each[\"y\"]"});
    assert_eq!(course.outputs["hostIDS"], ids);
}

#[test]
fn what_is_no_longer_wanted_goes_when_nothing_stands_on_it() {
    let mut there = BTreeMap::from([
        settled(&[], "a_net.main[0]"),
        settled(&[], "a_net.main[1]"),
        settled(&[], "a_net.main[2]"),
        settled(&[], "a_net.old"),
        settled(&["a_net.old"], "a_host.old"),
        settled(&["a_net.main"], "a_host.each[\"x\"]"),
        settled(&["a_net.main"], "a_host.each[\"y\"]"),
        settled(&["a_net.main", "a_host.each"], "a_host.alone"),
    ]);
    let course = decide(NETWORK, &there).unwrap();
    let going: Vec<&String> = course.going.iter().collect();
    assert_eq!(going, ["a_host.old", "a_net.main[2]"]);
    assert!(course.outputs.is_empty() && course.waiting.len() == 3, "{:?}", course.waiting);
    // While it goes, what it stands on waits; so does what something stood on that is being changed.
    there.get_mut("a_host.old").unwrap().going = true;
    there.get_mut("a_host.each[\"x\"]").unwrap().state = None;
    assert!(decide(NETWORK, &there).unwrap().going.is_empty());
    there.remove("a_host.old");
    assert_eq!(decide(NETWORK, &there).unwrap().going, ["a_net.old".to_owned()].into());
    // Which hosts there should be is not known while nets are on their way: none goes.
    let unknown = NETWORK.replace("local.names", "toset([local.joined])");
    there.get_mut("a_net.main[0]").unwrap().state = None;
    let course = decide(&unknown, &there).unwrap();
    assert_eq!(course.going, ["a_net.old".to_owned()].into());
    // All of it, from the top.
    assert_eq!(course::departure(&there), ["a_host.alone".to_owned(), "a_net.old".to_owned()].into());
}

#[test]
fn secrets_go_where_they_are_kept() {
    let head = "variable \"word\" {\n sensitive = true\n default = \"hunter22\"\n}\n";
    let with = |text: &str| decide(&format!("{head}{text}"), &BTreeMap::new());
    let course = with("resource \"a_b\" \"c\" {\n name = \"x\"\n secret_word = var.word\n}").unwrap();
    assert_eq!(course.wanted[0].shown, json!({"name": "x"}));
    assert_eq!(course.wanted[0].secret, Some(json!({"secret_word": "hunter22"})));
    let refused = |text: &str, expected: &str| {
        let problem = with(text).expect_err(text).to_string();
        assert_eq!(problem, expected);
    };
    let exposed = "a sensitive value is given to an argument that the provider does not keep secret";
    refused("resource \"a_b\" \"c\" {\n name = var.word\n}", &format!("main.tf:6: {exposed}"));
    refused(
        "resource \"a_b\" \"c\" {\n count = length(var.word)\n name = \"x\"\n}",
        "main.tf:6: this must not be sensitive",
    );
    refused(
        "output \"c\" {\n value = var.word\n}",
        "main.tf:6: the output \"c\" holds something sensitive and does not say so",
    );
    let course = with("output \"c\" {\n sensitive = true\n value = var.word\n}").unwrap();
    assert!(course.outputs.is_empty() && course.secret_outputs["c"] == "hunter22");
}

#[test]
fn wrong_arguments_are_found_before_anything_is_done() {
    let refused = |text: &str, expected: &str| {
        let problem = decide(text, &BTreeMap::new()).expect_err(text).to_string();
        assert_eq!(problem, expected);
    };
    refused("resource \"a_b\" \"c\" {\n}", "main.tf:1: the argument \"name\" is required");
    refused(
        "resource \"a_b\" \"c\" {\n name = 1\n other = 2\n}",
        "main.tf:3: there is no argument \"other\"",
    );
    refused("resource \"a_b\" \"c\" {\n name = 1\n id = 2\n}", "main.tf:3: \"id\" is the provider's to say");
    refused("resource \"a_b\" \"c\" {\n name = []\n}", "main.tf:2: a string is required, and this is a list");
    refused("resource \"a_b\" \"c\" {\n name = 1\n rule {}\n}", "main.tf:3: there is no block \"rule\"");
    refused("resource \"a_b\" \"c\" {\n count = -1\n}", "main.tf:2: count is a whole number from 0 to 1000");
    refused(
        "resource \"a_b\" \"c\" {\n for_each = [\"a\"]\n}",
        "main.tf:2: for_each takes a map, or a set of strings",
    );
    refused(
        "resource \"a_b\" \"c\" {\n name = 1\n lifecycle {\n precondition {\n condition = false\n error_message = \"no\"\n}\n}\n}",
        "main.tf:5: no",
    );
}

proptest::proptest! {
    /// Files are foreign: whatever is in them, there is an answer.
    #[test]
    fn no_file_makes_it_panic(cuts in proptest::collection::vec((0..2000_usize, 0..30_usize, "[ -~\n\"${}%]{0,12}"), 1..6)) {
        let mut letters: Vec<char> = NETWORK.chars().collect();
        for (at, length, text) in cuts {
            let at = at.min(letters.len());
            let end = (at + length).min(letters.len());
            letters.splice(at..end, text.chars());
        }
        let _ = decide(&letters.into_iter().collect::<String>(), &BTreeMap::new());
    }
}
