//! The rules of a schema (`x-kubernetes-validations`), compiled in their places.

use std::collections::{BTreeMap, HashMap};

use compact_str::CompactString;
use objects::Path;
use objects::field::{Error, ErrorList};
use schemas::{Additional, Cursor, ListType, NodeId, Rule, Schema, Type};
use serde_json::{Map, Value};

use crate::budget::{ESTIMATED_RULE_LIMIT, ESTIMATED_SCHEMA_LIMIT};
use crate::check::{Checked, Checker, Variable};
use crate::field_path;
use crate::program::Op;
use crate::syntax::parse;
use crate::ty::Ty;
use crate::types::{MAX_REQUEST_BYTES, TypeId, Types, elements_correlate, entries_correlate};

/// All rules of a schema, ready to run. Immutable: share it behind an `Arc`.
#[derive(Debug, Default)]
pub struct CompiledRules {
    pub(crate) types: Types,
    pub(crate) stations: Vec<Station>,
    pub(crate) root: Option<StationId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StationId(usize);

/// A place of the schema that has rules, or leads to places that have.
#[derive(Debug)]
pub(crate) struct Station {
    /// What errors show instead of the value.
    pub type_name: &'static str,
    pub place: Option<TypeId>,
    pub rules: Vec<CompiledRule>,
    pub fields: BTreeMap<CompactString, StationId>,
    pub additional: Option<StationId>,
    pub items: Option<StationId>,
    pub all_of: Vec<StationId>,
    /// By which keys elements are the same as before, if they can be.
    pub keys: Vec<CompactString>,
    pub entries_correlate: bool,
}

#[derive(Debug)]
pub(crate) struct CompiledRule {
    pub program: Op,
    pub uses_old_self: bool,
    pub optional_old_self: bool,
    pub message: String,
    /// The message if there is one, or else the rule: how errors speak of it.
    pub name: String,
    pub message_expression: Option<(String, Op)>,
    pub reason: Reason,
    pub field_path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Invalid,
    Required,
    Forbidden,
    Duplicate,
}

const REASONS: [(&str, Reason); 4] = [
    ("FieldValueDuplicate", Reason::Duplicate),
    ("FieldValueForbidden", Reason::Forbidden),
    ("FieldValueInvalid", Reason::Invalid),
    ("FieldValueRequired", Reason::Required),
];

/// Levels of a schema that are looked at. Structural schemas end long before; definitions of built-in kinds that contain
/// themselves do not end at all.
const MAX_DEPTH: usize = 100;
const LINE_BREAKS: [char; 2] = ['\n', '\r'];
/// How many of the dearest rules are named when the whole is too dear, if they cost a hundredth of it.
const NAMED_RULES: usize = 4;

impl CompiledRules {
    /// Compiles every rule of a custom resource's schema. `path` is where the schema stands in its definition, such as
    /// `spec.versions[0].schema.openAPIV3Schema`.
    pub fn compile(schema: &Schema, path: &Path) -> Result<CompiledRules, ErrorList> {
        let mut compiler = Compiler {
            rules: CompiledRules::default(),
            errors: Vec::new(),
            with_rules: HashMap::new(),
            total: 0,
            dearest: Vec::new(),
        };
        let root = schema.root();
        if !compiler.has_rules(root, 0) {
            return Ok(compiler.rules);
        }
        let way =
            Way { path: path.clone(), cardinality: Some(1), uncorrelatable: None, depth: 0, resource: true };
        compiler.rules.root = compiler.visit(root, root, way);
        compiler.report_total(path);
        if !compiler.errors.is_empty() {
            return Err(compiler.errors);
        }
        compiler.rules.types.seal();
        Ok(compiler.rules)
    }

    /// Whether there is nothing to check.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    pub(crate) fn station(&self, id: StationId) -> Option<&Station> {
        self.stations.get(id.0)
    }
}

struct Compiler {
    rules: CompiledRules,
    errors: ErrorList,
    with_rules: HashMap<NodeId, bool>,
    /// The estimate for all rules together, and the dearest of them.
    total: u64,
    dearest: Vec<(u64, Path)>,
}

/// How the walk came to a place.
#[derive(Clone)]
struct Way {
    path: Path,
    /// How many values there can be at this place; none if the schema sets no bound.
    cardinality: Option<u64>,
    /// The schema below which old and new values cannot be told to be the same.
    uncorrelatable: Option<Path>,
    depth: usize,
    /// Whether this is the root of a resource.
    resource: bool,
}

impl Way {
    fn to(&self, path: Path, at: Cursor<'_>) -> Way {
        Way { path, depth: self.depth + 1, resource: at.node().embedded_resource, ..self.clone() }
    }

    fn times(mut self, count: Option<u64>) -> Way {
        self.cardinality = self.cardinality.zip(count).map(|(a, b)| a.saturating_mul(b));
        self
    }

    fn uncorrelated_at(mut self, correlates: bool, path: &Path) -> Way {
        if !correlates && self.uncorrelatable.is_none() {
            self.uncorrelatable = Some(path.clone());
        }
        self
    }
}

impl Compiler {
    /// Whether a place has rules, or something below it.
    fn has_rules(&mut self, at: Cursor<'_>, depth: usize) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        if let Some(known) = self.with_rules.get(&at.id()) {
            return *known;
        }
        self.with_rules.insert(at.id(), false);
        let node = at.node();
        let additional = match node.additional {
            Additional::Schema(id) => Some(id),
            _ => None,
        };
        let all_of = node.constraints.iter().flat_map(|c| c.all_of.iter());
        let below: Vec<NodeId> =
            node.properties.values().chain(all_of).copied().chain(node.items).chain(additional).collect();
        let found =
            !node.rules.is_empty() || below.into_iter().any(|id| self.has_rules(at.to(id), depth + 1));
        self.with_rules.insert(at.id(), found);
        found
    }

    /// `at` has the rules; `typed` says what the values are. They differ below `allOf` only, which adds rules to a value
    /// that is described beside it.
    fn visit(&mut self, at: Cursor<'_>, typed: Cursor<'_>, way: Way) -> Option<StationId> {
        if way.depth > MAX_DEPTH || !self.has_rules(at, way.depth) {
            return None;
        }
        let node = at.node();
        let place = self.rules.types.declare(typed, way.resource);
        let rules = self.compile_rules(at, typed, place, &way);
        let correlates = entries_correlate(typed);
        let mut fields = BTreeMap::new();
        for (name, id) in &node.properties {
            let Some(typed) = typed.node().properties.get(name).map(|id| typed.to(*id)) else { continue };
            let below =
                way.to(way.path.child("properties").key(name), typed).uncorrelated_at(correlates, &way.path);
            if let Some(station) = self.visit(at.to(*id), typed, below) {
                fields.insert(name.clone(), station);
            }
        }
        let bounds = typed.node().constraints.as_deref();
        let additional = match (&node.additional, &typed.node().additional) {
            (Additional::Schema(id), Additional::Schema(typed_id)) => {
                let typed = typed.to(*typed_id);
                let below = way.to(way.path.child("additionalProperties"), typed);
                let below =
                    below.times(bounds.and_then(|c| c.max_properties)).uncorrelated_at(correlates, &way.path);
                self.visit(at.to(*id), typed, below)
            }
            _ => None,
        };
        let items = at.items().zip(typed.items()).and_then(|(items, item_type)| {
            let below = way.to(way.path.child("items"), item_type).times(bounds.and_then(|c| c.max_items));
            self.visit(items, item_type, below.uncorrelated_at(elements_correlate(typed), &way.path))
        });
        let all_of = node.constraints.as_ref().map(|c| c.all_of.as_slice()).unwrap_or_default();
        let all_of = all_of.iter().enumerate().filter_map(|(index, id)| {
            let mut below = way.to(way.path.child("allOf").index(index), typed);
            below.resource = way.resource;
            self.visit(at.to(*id), typed, below)
        });
        let all_of = all_of.collect();
        let keys = match &typed.node().list_type {
            ListType::Map(keys) => keys.clone(),
            _ => Vec::new(),
        };
        self.rules.stations.push(Station {
            type_name: type_name(typed),
            place,
            rules,
            fields,
            additional,
            items,
            all_of,
            keys,
            entries_correlate: correlates,
        });
        Some(StationId(self.rules.stations.len() - 1))
    }

    fn compile_rules(
        &mut self,
        at: Cursor<'_>,
        typed: Cursor<'_>,
        place: Option<TypeId>,
        way: &Way,
    ) -> Vec<CompiledRule> {
        let rules = &at.node().rules;
        let path = way.path.child("x-kubernetes-validations");
        if rules.is_empty() {
            return Vec::new();
        }
        let Some(place) = place else {
            let message = "internal error: failed to retrieve type information for x-kubernetes-validations";
            self.errors.push(Error::internal(&path, message));
            return Vec::new();
        };
        let mut compiled = Vec::with_capacity(rules.len());
        for (index, rule) in rules.iter().enumerate() {
            compiled.extend(self.compile_rule(rule, typed, place, &path.index(index), way));
        }
        compiled
    }

    fn compile_rule(
        &mut self,
        rule: &Rule,
        typed: Cursor<'_>,
        place: TypeId,
        path: &Path,
        way: &Way,
    ) -> Option<CompiledRule> {
        let before = self.errors.len();
        self.check_texts(rule, path);
        let reason = self.check_reason(rule, path);
        let field_path = self.check_field_path(rule, typed, path);
        if self.errors.len() > before {
            return None;
        }
        let optional_old_self = rule.optional_old_self == Some(true);
        let compiled = self.compile_test(rule, place, optional_old_self, path, way);
        let message_expression = self.compile_message(rule, place, path);
        let (program, uses_old_self) = compiled.filter(|_| self.errors.len() == before)?;
        let message = rule.message.trim().to_owned();
        let name = if message.is_empty() { rule.rule.trim().to_owned() } else { message.clone() };
        Some(CompiledRule {
            program,
            uses_old_self,
            optional_old_self,
            message,
            name,
            message_expression,
            reason,
            field_path,
        })
    }

    /// The rule itself, and whether it is about a transition.
    fn compile_test(
        &mut self,
        rule: &Rule,
        place: TypeId,
        optional_old_self: bool,
        path: &Path,
        way: &Way,
    ) -> Option<(Op, bool)> {
        let compiled = self.compile_source(&rule.rule, place, optional_old_self, &Ty::Bool);
        let at = path.child("rule");
        let (program, uses_old_self, cost) = match compiled {
            Ok(compiled) => compiled,
            Err(detail) => {
                self.errors.push(Error::invalid(&at, shown(rule), detail));
                return None;
            }
        };
        // Without a bound, as many as fit into a request.
        let fitting = MAX_REQUEST_BYTES / (self.rules.types.get(place).min_bytes + 1);
        self.account("estimated rule cost", cost.saturating_mul(way.cardinality.unwrap_or(fitting)), &at);
        if let Some(within) = way.uncorrelatable.as_ref().filter(|_| uses_old_self) {
            let detail =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
            self.errors.push(Error::invalid(&at, rule.rule.as_str(), detail));
        }
        if let Some(set) = rule.optional_old_self.filter(|_| !uses_old_self) {
            let detail = "may not be set if oldSelf is not used in rule";
            self.errors.push(Error::invalid(&path.child("optionalOldSelf"), set, detail));
        }
        Some((program, uses_old_self))
    }

    fn compile_message(&mut self, rule: &Rule, place: TypeId, path: &Path) -> Option<(String, Op)> {
        if rule.message_expression.trim().is_empty() {
            return None;
        }
        let path = path.child("messageExpression");
        // The message sees oldSelf as it is, also where the rule sees it as optional.
        match self.compile_source(&rule.message_expression, place, false, &Ty::Str) {
            Ok((program, _, cost)) => {
                self.account("estimated messageExpression cost", cost, &path);
                Some((rule.message_expression.clone(), program))
            }
            Err(detail) => {
                self.errors.push(Error::invalid(&path, shown(rule), detail));
                None
            }
        }
    }

    /// The program, whether it uses `oldSelf`, and its estimated cost; or what is wrong.
    fn compile_source(
        &self,
        source: &str,
        place: TypeId,
        optional_old_self: bool,
        wanted: &Ty,
    ) -> Result<(Op, bool, u64), String> {
        let types = &self.rules.types;
        let this = Variable::at("self", types.place(place), place);
        let mut old = Variable::at("oldSelf", types.place(place), place);
        if optional_old_self {
            old.ty = Ty::optional(old.ty);
        }
        let mut checker = Checker::new(types, vec![this, old]);
        let checked = parse(source).and_then(|expr| checker.check(&expr));
        let Checked { op, ty, cost, .. } =
            checked.map_err(|issue| format!("compilation failed: {}", issue.render(source)))?;
        if ty != *wanted {
            return Err(match wanted {
                Ty::Bool => "cel expression must evaluate to a bool".to_owned(),
                wanted => format!("messageExpression must evaluate to a {wanted}"),
            });
        }
        Ok((op, checker.uses("oldSelf"), cost))
    }

    fn check_texts(&mut self, rule: &Rule, path: &Path) {
        let (test, message) = (rule.rule.trim(), rule.message.trim());
        let at = path.child("message");
        if test.is_empty() {
            self.errors.push(Error::required(&path.child("rule"), "rule is not specified"));
        } else if !rule.message.is_empty() && message.is_empty() {
            let detail = "message must be non-empty if specified";
            self.errors.push(Error::invalid(&at, rule.message.as_str(), detail));
        } else if message.contains(LINE_BREAKS) {
            self.errors.push(Error::invalid(
                &at,
                rule.message.as_str(),
                "message must not contain line breaks",
            ));
        } else if test.contains(LINE_BREAKS) && message.is_empty() {
            self.errors.push(Error::required(&at, "message must be specified if rule contains line breaks"));
        }
        if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
            let at = path.child("messageExpression");
            self.errors.push(Error::required(&at, "messageExpression must be non-empty if specified"));
        }
    }

    fn check_reason(&mut self, rule: &Rule, path: &Path) -> Reason {
        if rule.reason.is_empty() {
            return Reason::Invalid;
        }
        if let Some((_, reason)) = REASONS.iter().find(|(name, _)| *name == rule.reason) {
            return *reason;
        }
        let supported = REASONS.map(|(name, _)| name);
        self.errors.push(Error::not_supported(&path.child("reason"), rule.reason.as_str(), &supported));
        Reason::Invalid
    }

    fn check_field_path(&mut self, rule: &Rule, at: Cursor<'_>, path: &Path) -> String {
        if rule.field_path.is_empty() {
            return String::new();
        }
        let resolved = field_path::resolve(rule.field_path.trim(), at);
        let detail = if rule.field_path.trim().is_empty() {
            "fieldPath must be non-empty if specified"
        } else if rule.field_path.contains(LINE_BREAKS) {
            "fieldPath must not contain line breaks"
        } else if let Some(path) = resolved {
            return path;
        } else {
            "fieldPath must be a valid path"
        };
        self.errors.push(Error::invalid(&path.child("fieldPath"), rule.field_path.as_str(), detail));
        String::new()
    }

    /// Adds an expression's estimate to the total, and refuses it if it is too dear by itself.
    fn account(&mut self, what: &str, cost: u64, path: &Path) {
        if cost > ESTIMATED_RULE_LIMIT {
            self.errors.push(Error::forbidden(path, too_dear(what, cost, ESTIMATED_RULE_LIMIT)));
        }
        self.total = self.total.saturating_add(cost);
        if cost <= ESTIMATED_SCHEMA_LIMIT / 100 {
            return;
        }
        self.dearest.push((cost, path.clone()));
        self.dearest.sort_by(|(a, _), (b, _)| b.cmp(a));
        self.dearest.truncate(NAMED_RULES);
    }

    fn report_total(&mut self, path: &Path) {
        if self.total <= ESTIMATED_SCHEMA_LIMIT {
            return;
        }
        for (_, rule) in &self.dearest {
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            self.errors.push(Error::forbidden(rule, detail));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        self.errors.push(Error::forbidden(path, too_dear(what, self.total, ESTIMATED_SCHEMA_LIMIT)));
    }
}

fn too_dear(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        // One digit would say 1.0: over the limit by nothing.
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

fn type_name(at: Cursor<'_>) -> &'static str {
    match at.node().kind {
        Type::Any => "",
        Type::Object => "object",
        Type::Array => "array",
        Type::String => "string",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
    }
}

/// The rule as it was written: the bad value of an error about it.
fn shown(rule: &Rule) -> Value {
    let texts = [
        ("rule", &rule.rule),
        ("message", &rule.message),
        ("messageExpression", &rule.message_expression),
        ("reason", &rule.reason),
        ("fieldPath", &rule.field_path),
    ];
    let set = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let mut shown: Map<String, Value> =
        set.map(|(name, text)| (name.to_owned(), text.as_str().into())).collect();
    if let Some(optional) = rule.optional_old_self {
        shown.insert("optionalOldSelf".to_owned(), optional.into());
    }
    Value::Object(shown)
}
