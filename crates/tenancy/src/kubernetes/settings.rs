//! How control planes of a cluster are reached: by `kubeflex-config`, and what the command line says more strongly.

use objects::Value;

use super::failed;
use crate::api::{self, Place};
use crate::host::{HostError, Settings};
use crate::names;

/// Settings that are not left to `kubeflex-config`.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    pub domain: Option<String>,
    pub external_port: Option<u16>,
    pub host_container: Option<String>,
    pub is_openshift: Option<bool>,
}

/// `kubeflex-config`, where nothing stronger is said.
pub async fn read(client: &kube::Client, overrides: &Overrides) -> Result<Settings, HostError> {
    let place = Place::new("v1", "configmaps", names::SYSTEM_NAMESPACE, names::SYSTEM_CONFIG);
    let config = api::get(client, &place).await.map_err(failed)?.unwrap_or_default();
    of(&config["data"], overrides)
}

/// What KubeFlex has where nothing is said.
const DOMAIN: &str = "localtest.me";
const EXTERNAL_PORT: u16 = 9_443;

pub fn default_settings() -> Settings {
    Settings::new(DOMAIN, EXTERNAL_PORT)
}

fn of(data: &Value, overrides: &Overrides) -> Result<Settings, HostError> {
    let said = |key: &str| data[key].as_str().map(str::trim).filter(|text| !text.is_empty());
    let wrong = |key: &str, text: &str, what: &str| {
        let config = names::SYSTEM_CONFIG;
        HostError::Refused(format!("{config}: {key} is {text:?}, which is not {what}"))
    };
    let mut settings = default_settings();
    if let Some(domain) = said("domain") {
        if !objects::names::dns1123_subdomain(domain).is_empty() {
            return Err(wrong("domain", domain, "a domain"));
        }
        domain.clone_into(&mut settings.domain);
    }
    if let Some(port) = said("externalPort") {
        settings.external_port = port.parse().map_err(|_| wrong("externalPort", port, "a port"))?;
    }
    if let Some(container) = said("hostContainer") {
        container.clone_into(&mut settings.host_container);
    }
    if let Some(text) = said("isOpenShift") {
        settings.is_openshift = text.parse().map_err(|_| wrong("isOpenShift", text, "true or false"))?;
    }
    let Overrides { domain, external_port, host_container, is_openshift } = overrides.clone();
    Ok(Settings {
        domain: domain.unwrap_or(settings.domain),
        external_port: external_port.unwrap_or(settings.external_port),
        host_container: host_container.unwrap_or(settings.host_container),
        is_openshift: is_openshift.unwrap_or(settings.is_openshift),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(data: Value, overrides: Overrides, expected: Result<(&str, u16, &str, bool), &str>) {
        let read = of(&data, &overrides).map_err(|error| error.to_string());
        let expected = expected
            .map(|(domain, external_port, container, is_openshift)| Settings {
                domain: domain.to_owned(),
                external_port,
                host_container: container.to_owned(),
                is_openshift,
            })
            .map_err(str::to_owned);
        assert_eq!(read, expected, "{data}");
    }

    #[test]
    fn settings() {
        let none = Overrides::default;
        check(Value::Null, none(), Ok(("localtest.me", 9443, "kubeflex-control-plane", false)));
        check(
            json!({"domain": "a.com", "externalPort": "443", "hostContainer": "c", "isOpenShift": "true"}),
            none(),
            Ok(("a.com", 443, "c", true)),
        );
        check(
            json!({"domain": "a.com", "isOpenShift": "true"}),
            Overrides { domain: Some("b.com".to_owned()), is_openshift: Some(false), ..none() },
            Ok(("b.com", 9443, "kubeflex-control-plane", false)),
        );
        let wrong = |what: &str| format!("kubeflex-config: {what}");
        check(json!({"domain": "a b"}), none(), Err(&wrong("domain is \"a b\", which is not a domain")));
        check(
            json!({"externalPort": "x"}),
            none(),
            Err(&wrong("externalPort is \"x\", which is not a port")),
        );
        check(
            json!({"isOpenShift": "maybe"}),
            none(),
            Err(&wrong("isOpenShift is \"maybe\", which is not true or false")),
        );
    }
}
