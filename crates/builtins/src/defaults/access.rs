//! Bindings of roles, and who gets which priority.

use objects::Value;

use crate::dotted::Dotted;

const RBAC: &str = "rbac.authorization.k8s.io";

pub(crate) fn binding(binding: &mut Value) {
    binding.default("roleRef.apiGroup", RBAC);
    for subject in binding.items_mut("subjects") {
        if matches!(subject.text("kind"), "User" | "Group") {
            subject.default("apiGroup", RBAC);
        }
    }
}

pub(crate) fn priority_class(class: &mut Value) {
    class.default("preemptionPolicy", "PreemptLowerPriority");
}
