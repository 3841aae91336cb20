//! Webhooks, admission policies, the fairness of requests.
//!
//! Expressions are compiled by whoever evaluates them; here is everything about them but their text.

use objects::{ErrorList, Value, meta, names};

use super::network::is_group_version;
use super::selectors::label_selector;
use super::{Place, checked};
use crate::dotted::Dotted;

const MAX_MATCH_CONDITIONS: usize = 64;

pub(crate) fn validating_webhooks(configuration: &Value) -> ErrorList {
    checked(configuration, webhooks)
}

pub(crate) fn mutating_webhooks(configuration: &Value) -> ErrorList {
    checked(configuration, |configuration| {
        webhooks(configuration);
        for hook in configuration.items("webhooks") {
            hook.choice_if("reinvocationPolicy", &["IfNeeded", "Never"]);
        }
    })
}

fn webhooks(configuration: &Place<'_>) {
    for hook in configuration.items("webhooks") {
        qualified(&hook.at("name"));
        hook.items("rules")
            .for_each(|rule| rule_with_operations(&rule, &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]));
        hook.choice_if("failurePolicy", &["Fail", "Ignore"]);
        hook.choice_if("matchPolicy", &["Equivalent", "Exact"]);
        if hook.has("sideEffects") {
            hook.choice_if("sideEffects", &["None", "NoneOnDryRun"]);
        } else {
            hook.required("sideEffects", "must specify one of None, NoneOnDryRun");
        }
        if hook.int("timeoutSeconds").is_some_and(|seconds| !(1..=30).contains(&seconds)) {
            hook.invalid("timeoutSeconds", "the timeout value must be between 1 and 30 seconds");
        }
        label_selector(&hook.at("namespaceSelector"));
        label_selector(&hook.at("objectSelector"));
        client_config(&hook.at("clientConfig"));
        match_conditions(&hook);
        review_versions(&hook);
    }
    super::place::no_repeats(configuration.items("webhooks"), "name");
}

/// A name with a domain of at least three segments.
fn qualified(name: &Place<'_>) {
    if !name.need("") {
        return;
    }
    name.shape("", names::dns1123_subdomain);
    if name.text("").split('.').count() < 3 {
        name.invalid("", "should be a domain with at least three segments separated by dots");
    }
}

fn client_config(config: &Place<'_>) {
    match (config.has("url"), config.has("service")) {
        (true, false) => webhook_url(&config.at("url")),
        (false, true) => webhook_service(&config.at("service")),
        _ => config.required("", "exactly one of url or service is required"),
    }
}

fn webhook_url(url: &Place<'_>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (scheme, rest) = url.text("").split_once("://").unwrap_or(("", url.text("")));
    if scheme != "https" {
        url.invalid_as("", scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or("");
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.is_empty() {
        url.invalid_as("", host, format!("host must be specified{FORM}"));
    }
    for (part, what) in [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if !part.is_empty() {
            url.invalid_as("", part, what);
        }
    }
}

fn webhook_service(service: &Place<'_>) {
    service.need("name");
    service.need("namespace");
    for sentence in names::port_number(service.number("port")) {
        service.invalid_as("port", service.number("port"), format!("port is not valid: {sentence}"));
    }
    let path = service.text("path");
    if matches!(path, "" | "/") {
        return;
    }
    if !path.starts_with('/') {
        service.invalid("path", "must start with a '/'");
    }
    let steps = path.strip_prefix('/').unwrap_or(path);
    for (i, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        if step.is_empty() {
            service.invalid("path", format!("segment[{i}] may not be empty"));
            continue;
        }
        for sentence in names::dns1123_subdomain(step) {
            service.invalid("path", format!("segment[{i}]: {sentence}"));
        }
    }
}

fn match_conditions(holder: &Place<'_>) {
    if holder.count("matchConditions") > MAX_MATCH_CONDITIONS {
        holder.too_many("matchConditions", MAX_MATCH_CONDITIONS);
    }
    for condition in holder.items("matchConditions") {
        if condition.text("expression").trim().is_empty() {
            condition.required("expression", "");
        }
        condition.need_shape("name", names::qualified_name);
    }
    super::place::no_repeats(holder.items("matchConditions"), "name");
}

fn review_versions(hook: &Place<'_>) {
    let versions = hook.texts("admissionReviewVersions");
    if versions.is_empty() {
        return hook.required("admissionReviewVersions", "must specify one of v1, v1beta1");
    }
    for (i, version) in hook.items("admissionReviewVersions").enumerate() {
        if versions.iter().take(i).any(|before| *before == version.text("")) {
            version.invalid("", "duplicate version");
        } else {
            version.shape("", names::dns1035_label);
        }
    }
    if !versions.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        hook.invalid("admissionReviewVersions", "must include at least one of v1, v1beta1");
    }
}

fn rule_with_operations(rule: &Place<'_>, operations: &[&str]) {
    let wild = |field: &str| rule.count(field) > 1 && rule.texts(field).contains(&"*");
    if rule.count("operations") == 0 {
        rule.required("operations", "");
    }
    if wild("operations") {
        rule.invalid("operations", "if '*' is present, must not specify other operations");
    }
    rule.items("operations").for_each(|operation| operation.choice_if("", operations));
    for (field, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        if rule.count(field) == 0 {
            rule.required(field, "");
        }
        if wild(field) {
            rule.invalid(field, format!("if '*' is present, must not specify other {what}"));
        }
    }
    rule.items("apiVersions").for_each(|version| {
        version.need("");
    });
    resources(rule);
    rule.choice_if("scope", &["*", "Cluster", "Namespaced"]);
}

fn resources(rule: &Place<'_>) {
    let all = rule.texts("resources");
    if all.is_empty() {
        rule.required("resources", "");
    }
    let (mut wild_parts, mut wild_wholes): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for resource in rule.items("resources") {
        let text = resource.value.text("");
        if !resource.need("") {
            continue;
        }
        let Some((whole, part)) = text.split_once('/') else { continue };
        if wild_parts.contains(&whole) {
            resource.invalid("", format!("if '{whole}/*' is present, must not specify {text}"));
        }
        if wild_wholes.contains(&part) {
            resource.invalid("", format!("if '*/{part}' is present, must not specify {text}"));
        }
        if part == "*" {
            wild_parts.push(whole);
        }
        if whole == "*" {
            wild_wholes.push(part);
        }
    }
    if all.len() > 1 && all.contains(&"*/*") {
        rule.invalid("resources", "if '*/*' is present, must not specify other resources");
    }
    if all.contains(&"*") && all.iter().any(|resource| *resource != "*" && !resource.contains('/')) {
        let detail = "if '*' is present, must not specify other resources without subresources";
        rule.invalid("resources", detail);
    }
}

pub(crate) fn validating_policy(policy: &Value) -> ErrorList {
    checked(policy, |policy| {
        let spec = policy.at("spec");
        policy_spec(&spec, &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]);
        if spec.count("validations") + spec.count("auditAnnotations") == 0 {
            let detail = "validations or auditAnnotations must contain at least one item";
            spec.required("validations", detail);
            spec.required("auditAnnotations", detail);
        }
        for validation in spec.items("validations") {
            if validation.text("expression").trim().is_empty() {
                validation.required("expression", "expression is not specified");
            }
            if validation.text("message").contains('\n') {
                validation.invalid("message", "message must not contain line breaks");
            }
            let reasons = ["Unauthorized", "Forbidden", "Invalid", "RequestEntityTooLarge"];
            validation.choice_if("reason", &reasons);
        }
        super::place::no_repeats(spec.items("auditAnnotations"), "key");
        for annotation in spec.items("auditAnnotations") {
            annotation.need_shape("key", names::qualified_name);
            annotation.need("valueExpression");
        }
    })
}

pub(crate) fn mutating_policy(policy: &Value) -> ErrorList {
    checked(policy, |policy| {
        let spec = policy.at("spec");
        policy_spec(&spec, &["*", "CONNECT", "CREATE", "UPDATE"]);
        if spec.count("mutations") == 0 {
            spec.required("mutations", "mutations must contain at least one item");
        }
        for mutation in spec.items("mutations") {
            mutation.choice("patchType", &["ApplyConfiguration", "JSONPatch"]);
        }
        spec.choice("reinvocationPolicy", &["IfNeeded", "Never"]);
    })
}

fn policy_spec(spec: &Place<'_>, operations: &[&str]) {
    spec.choice("failurePolicy", &["Fail", "Ignore"]);
    let kind = spec.at("paramKind");
    if !kind.is_null() {
        if kind.need("apiVersion") && !is_group_version(kind.text("apiVersion")) {
            kind.invalid(
                "apiVersion",
                format!("unexpected GroupVersion string: {}", kind.text("apiVersion")),
            );
        }
        kind.need("kind");
    }
    if !spec.has("matchConstraints") {
        spec.required("matchConstraints", "");
    } else {
        match_resources(&spec.at("matchConstraints"), operations);
        if spec.count("matchConstraints.resourceRules") == 0 {
            spec.required("matchConstraints.resourceRules", "");
        }
    }
    match_conditions(spec);
    for variable in spec.items("variables") {
        if variable.text("name").is_empty() {
            variable.required("name", "name is not specified");
        } else if !names::c_identifier(variable.text("name")).is_empty() {
            variable.invalid("name", "name is not a valid CEL identifier");
        }
        if variable.text("expression").trim().is_empty() {
            variable.required("expression", "expression is not specified");
        }
    }
}

fn match_resources(resources: &Place<'_>, operations: &[&str]) {
    label_selector(&resources.at("namespaceSelector"));
    label_selector(&resources.at("objectSelector"));
    for rules in ["resourceRules", "excludeResourceRules"] {
        resources.items(rules).for_each(|rule| rule_with_operations(&rule, operations));
    }
    resources.choice_if("matchPolicy", &["Equivalent", "Exact"]);
}

pub(crate) fn validating_policy_binding(binding: &Value) -> ErrorList {
    checked(binding, |binding| {
        let spec = binding.at("spec");
        policy_binding(&spec);
        if spec.count("validationActions") == 0 {
            spec.required("validationActions", "at least one validation action is required");
        }
        spec.items("validationActions").for_each(|action| action.choice_if("", &["Audit", "Deny", "Warn"]));
        super::place::no_repeats(spec.items("validationActions"), "");
        let actions = spec.texts("validationActions");
        if actions.contains(&"Deny") && actions.contains(&"Warn") {
            let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the \
                          API response and headers serves no purpose)";
            spec.invalid("validationActions", detail);
        }
    })
}

pub(crate) fn mutating_policy_binding(binding: &Value) -> ErrorList {
    checked(binding, |binding| policy_binding(&binding.at("spec")))
}

fn policy_binding(spec: &Place<'_>) {
    spec.need_shape("policyName", names::dns1123_subdomain);
    let param = spec.at("paramRef");
    if !param.is_null() {
        let exclusive = "name and selector are mutually exclusive";
        match (param.text("name").is_empty(), param.has("selector")) {
            (true, false) => param.required("", "one of name or selector must be specified"),
            (false, true) => {
                param.forbidden("name", exclusive);
                param.forbidden("selector", exclusive);
            }
            _ => {}
        }
        param.shape_if("name", names::path_segment);
        label_selector(&param.at("selector"));
        param.choice("parameterNotFoundAction", &["Deny", "Allow"]);
    }
    if spec.has("matchResources") {
        match_resources(&spec.at("matchResources"), &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]);
    }
}

pub(crate) fn flow_schema(schema: &Value) -> ErrorList {
    const MAX_PRECEDENCE: i64 = 10_000;
    checked(schema, |schema| {
        let spec = schema.at("spec");
        let precedence = spec.number("matchingPrecedence");
        if precedence <= 0 {
            spec.invalid_as("matchingPrecedence", precedence, "must be a positive value");
        }
        if precedence > MAX_PRECEDENCE {
            spec.invalid("matchingPrecedence", format!("must not be greater than {MAX_PRECEDENCE}"));
        }
        if precedence == 1 && meta::name(schema) != "exempt" {
            let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
            spec.invalid("matchingPrecedence", detail);
        }
        spec.at("distinguisherMethod").choice_if("type", &["ByNamespace", "ByUser"]);
        if spec.text("priorityLevelConfiguration.name").is_empty() {
            spec.required("priorityLevelConfiguration.name", "must reference a priority level");
        }
        spec.shape_if("priorityLevelConfiguration.name", names::dns1123_subdomain);
        spec.items("rules").for_each(|rule| flow_rule(&rule));
    })
}

fn flow_rule(rule: &Place<'_>) {
    if rule.count("subjects") == 0 {
        rule.required("subjects", "subjects must contain at least one value");
    }
    for subject in rule.items("subjects") {
        let kinds = [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];
        let Some((kind, field)) = kinds.iter().find(|(kind, _)| *kind == subject.text("kind")) else {
            subject.unsupported("kind", &kinds.map(|(kind, _)| kind));
            continue;
        };
        for (other, field) in kinds.iter().filter(|(other, field)| other != kind && subject.has(field)) {
            subject.forbidden(field, format!("{field} is forbidden when subject kind is not '{other}'"));
        }
        if !subject.has(field) {
            let text = format!("{field} is required when subject kind is '{kind}'");
            subject.required(field, text);
        } else {
            subject.at(field).need("name");
        }
    }
    if rule.count("resourceRules") + rule.count("nonResourceRules") == 0 {
        rule.required("", "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    for resource in rule.items("resourceRules") {
        for field in ["verbs", "apiGroups", "resources"] {
            if resource.count(field) == 0 {
                resource.required(field, format!("{field} must contain at least one value"));
            }
        }
        if resource.count("namespaces") == 0 && !resource.flag("clusterScope") {
            let detail = "resource rules that are not cluster scoped must supply at least one namespace";
            resource.required("namespaces", detail);
        }
    }
    for other in rule.items("nonResourceRules") {
        for field in ["verbs", "nonResourceURLs"] {
            if other.count(field) == 0 {
                other.required(field, format!("{field} must contain at least one value"));
            }
        }
    }
}

pub(crate) fn priority_level(level: &Value) -> ErrorList {
    checked(level, |level| {
        let spec = level.at("spec");
        match spec.text("type") {
            "Exempt" if spec.has("limited") => {
                spec.forbidden("limited", "must be nil if the type is not Limited");
            }
            "Exempt" => {}
            "Limited" if !spec.has("limited") => {
                spec.required("limited", "must not be empty when type is Limited");
            }
            "Limited" => limited(&spec.at("limited")),
            _ => spec.unsupported("type", &["Exempt", "Limited"]),
        }
    })
}

fn limited(limited: &Place<'_>) {
    limited.not_negative("nominalConcurrencyShares");
    limited.in_range("lendablePercent", 0, 100);
    let response = limited.at("limitResponse");
    match response.text("type") {
        "Reject" if response.has("queuing") => {
            response.forbidden("queuing", "must be nil if limited.limitResponse.type is not Limited");
        }
        "Reject" => {}
        "Queue" if !response.has("queuing") => {
            response.required("queuing", "must not be empty if limited.limitResponse.type is Limited");
        }
        "Queue" => {
            for field in ["queues", "handSize", "queueLengthLimit"] {
                if response.at("queuing").number(field) <= 0 {
                    response.at("queuing").invalid(field, "must be positive");
                }
            }
        }
        _ => response.unsupported("type", &["Queue", "Reject"]),
    }
}
