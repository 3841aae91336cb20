//! Feature gates, with upstream's names and defaults.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gates {
    pub resource_adoption: bool,
    pub read_only_resources: bool,
    pub team_level_carm: bool,
    pub service_level_carm: bool,
    pub iam_role_selector: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Gates {
            resource_adoption: true,
            read_only_resources: true,
            team_level_carm: false,
            service_level_carm: false,
            iam_role_selector: false,
        }
    }
}

#[derive(thiserror::Error, Debug, PartialEq, Eq)]
pub enum GateError {
    #[error("there is no feature gate {0:?}")]
    Unknown(String),
    #[error("feature gate {0:?} is not of the form Name=true or Name=false")]
    Form(String),
}

impl Gates {
    /// Reads `A=true,B=false`.
    pub fn parse(text: &str) -> Result<Gates, GateError> {
        let mut gates = Gates::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| GateError::Form(part.to_owned()))?;
            let gate = match name.trim() {
                "ResourceAdoption" => &mut gates.resource_adoption,
                "ReadOnlyResources" => &mut gates.read_only_resources,
                "TeamLevelCARM" => &mut gates.team_level_carm,
                "ServiceLevelCARM" => &mut gates.service_level_carm,
                "IAMRoleSelector" => &mut gates.iam_role_selector,
                other => return Err(GateError::Unknown(other.to_owned())),
            };
            *gate = value.trim().parse().map_err(|_| GateError::Form(part.to_owned()))?;
        }
        Ok(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading() {
        assert_eq!(Gates::parse(""), Ok(Gates::default()));
        let gates = Gates::parse("IAMRoleSelector=true, ResourceAdoption=false").unwrap();
        assert!(gates.iam_role_selector && !gates.resource_adoption && gates.read_only_resources);
        assert_eq!(Gates::parse("Nothing=true"), Err(GateError::Unknown("Nothing".to_owned())));
        assert_eq!(Gates::parse("ResourceAdoption"), Err(GateError::Form("ResourceAdoption".to_owned())));
        assert!(Gates::parse("ResourceAdoption=perhaps").is_err());
    }
}
