//! Objects of the built-in kinds, as whole requests would bring them.

use objects::{GroupVersionKind, meta};

use crate::{parts, value};

/// An object and what it was: defaulted, prepared, validated, shown.
pub fn builtin(data: &[u8]) {
    let [new, old] = parts(data).map(value);
    let Some(mut new) = new.filter(serde_json::Value::is_object) else { return };
    let (group, version) = meta::api_version(&new).split_once('/').unwrap_or(("", meta::api_version(&new)));
    let kind =
        GroupVersionKind { group: group.into(), version: version.into(), kind: meta::kind(&new).into() };
    let Some(cursor) = builtins::cursor(&kind) else { return };
    // The server refuses what has wrong types before anything else looks at it.
    if schemas::decode_errors(cursor, &new).is_some() {
        return;
    }
    let behaviour = builtins::behaviour(&kind.group, &kind.kind);
    behaviour.defaults(&mut new);
    behaviour.prepare_create(&mut new);
    let _ = behaviour.validate(&new);
    let _ = behaviour.warnings(&new);
    for column in behaviour.columns {
        let _ = column.cell(&new, 1_700_000_000);
    }
    if let Some(old) = old.filter(|old| old.is_object() && schemas::decode_errors(cursor, old).is_none()) {
        behaviour.prepare_update(&mut new, &old);
        let _ = behaviour.validate_update(&new, &old);
        let _ = behaviour.validate_status_update(&new, &old);
        behaviour.count_generation(&mut new, &old);
    }
}

pub mod seeds {
    #![allow(non_upper_case_globals, reason = "named like the targets they are for")]

    pub const builtin: &[&[u8]] = &[
        b"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i:1\",\"ports\":[{\"containerPort\":80}],\"resources\":{\"limits\":{\"cpu\":\"1\",\"memory\":\"1Gi\"}},\"livenessProbe\":{\"httpGet\":{\"path\":\"/\",\"port\":\"http\"}},\"env\":[{\"name\":\"A\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"metadata.name\"}}}]}],\"volumes\":[{\"name\":\"v\",\"secret\":{\"secretName\":\"s\"}}],\"tolerations\":[{\"key\":\"k\",\"operator\":\"Exists\"}]}}\xff{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i:2\"}]}}",
        b"{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"s\"},\"spec\":{\"ports\":[{\"port\":80,\"targetPort\":\"x\"}],\"selector\":{\"a\":\"b\"},\"clusterIP\":\"10.0.0.1\",\"type\":\"NodePort\"}}",
        b"{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"d\"},\"spec\":{\"selector\":{\"matchLabels\":{\"a\":\"b\"}},\"strategy\":{\"rollingUpdate\":{\"maxSurge\":\"25%\"}},\"template\":{\"metadata\":{\"labels\":{\"a\":\"b\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}}",
        b"{\"apiVersion\":\"batch/v1\",\"kind\":\"CronJob\",\"metadata\":{\"name\":\"c\"},\"spec\":{\"schedule\":\"*/5 0-3,7 * JAN-MAR MON\",\"timeZone\":\"Europe/Berlin\",\"jobTemplate\":{\"spec\":{\"template\":{\"spec\":{\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}}}}",
        b"{\"apiVersion\":\"networking.k8s.io/v1\",\"kind\":\"Ingress\",\"metadata\":{\"name\":\"i\"},\"spec\":{\"rules\":[{\"host\":\"*.a.b\",\"http\":{\"paths\":[{\"path\":\"/x\",\"pathType\":\"Prefix\",\"backend\":{\"service\":{\"name\":\"s\",\"port\":{\"number\":80}}}}]}}]}}",
        b"{\"apiVersion\":\"rbac.authorization.k8s.io/v1\",\"kind\":\"ClusterRole\",\"metadata\":{\"name\":\"r\"},\"rules\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"verbs\":[\"get\"]},{\"nonResourceURLs\":[\"/healthz*\"],\"verbs\":[\"*\"]}]}",
        b"{\"apiVersion\":\"admissionregistration.k8s.io/v1\",\"kind\":\"ValidatingWebhookConfiguration\",\"metadata\":{\"name\":\"w\"},\"webhooks\":[{\"name\":\"a.b.c\",\"clientConfig\":{\"url\":\"https://a/b\"},\"sideEffects\":\"None\",\"admissionReviewVersions\":[\"v1\"],\"rules\":[{\"apiGroups\":[\"*\"],\"apiVersions\":[\"*\"],\"operations\":[\"CREATE\"],\"resources\":[\"*/*\"]}]}]}",
    ];
}
