//! Aggregated cluster roles: rules gathered from the roles that selectors find.

use objects::selector::{SelectorError, labels::Selector};
use serde_json::Value;

use super::{Rule, policy::rules_of};

/// The rules of an aggregated role: those of the cluster roles its selectors find, without itself and
/// without repetition. `None` if the role is not aggregated.
pub fn aggregate<'a>(
    role: &Value,
    cluster_roles: impl IntoIterator<Item = &'a Value>,
) -> Option<Result<Vec<Rule>, SelectorError>> {
    let rule = role.get("aggregationRule").filter(|rule| !rule.is_null())?;
    let selectors = rule.get("clusterRoleSelectors").and_then(Value::as_array);
    let own_name = objects::meta::name(role);
    let mut others: Vec<&Value> =
        cluster_roles.into_iter().filter(|other| objects::meta::name(other) != own_name).collect();
    others.sort_by_key(|other| objects::meta::name(other));
    Some(gather(selectors.map(Vec::as_slice).unwrap_or_default(), &others))
}

fn gather(selectors: &[Value], roles: &[&Value]) -> Result<Vec<Rule>, SelectorError> {
    let mut rules: Vec<Rule> = Vec::new();
    for selector in selectors {
        let selector = Selector::from_value(selector)?;
        for role in roles.iter().filter(|role| selector.matches(objects::meta::labels(role))) {
            for rule in rules_of(role) {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
    }
    Ok(rules)
}
