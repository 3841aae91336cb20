//! What the models cannot say: one readable file per service, in `rules/`.
//!
//! [`all`] has the rules of every service, parsed at first use. The words are explained in `rules/README.md`
//! and are the types of [`vocabulary`]; [`check`] holds them against the models.
//!
//! Not here: what follows from rules and models together ([`crate::kinds`], [`crate::crd`]).

pub mod check;
mod reach;
pub mod vocabulary;

use std::sync::{LazyLock, OnceLock};

use vocabulary::Service;

use crate::kinds::sites::Overlay;

/// A rule file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    #[error("rules/{service}.yaml is not a rule file: {source}")]
    Syntax { service: String, source: Box<serde_saphyr::Error> },
    #[error("rules/{service}.yaml:{line}: {fault}")]
    Fault { service: String, line: u64, fault: String },
}

/// The rules of a service under its name.
#[derive(Debug)]
pub struct ServiceRules {
    /// The first word of the group: `s3` of `s3.services.k8s.aws`.
    pub name: String,
    pub rules: Service,
    /// What they say of the model's structures, worked out once.
    pub(crate) overlay: OnceLock<Overlay>,
}

impl ServiceRules {
    /// Parses a rule file.
    pub fn parse(name: &str, text: &str) -> Result<ServiceRules, RulesError> {
        let syntax = |source| RulesError::Syntax { service: name.to_owned(), source: Box::new(source) };
        let rules = serde_saphyr::from_str(text).map_err(syntax)?;
        Ok(ServiceRules { name: name.to_owned(), rules, overlay: OnceLock::new() })
    }
}

macro_rules! files {
    ($($service:literal)*) => {
        &[$(($service, include_str!(concat!("../rules/", $service, ".yaml")))),*]
    };
}

/// Every rule file, by the name of its service.
pub const FILES: &[(&str, &str)] = files! {
    "acm"
    "acmpca"
    "apigateway"
    "apigatewayv2"
    "applicationautoscaling"
    "athena"
    "autoscaling"
    "backup"
    "bedrock"
    "bedrockagent"
    "bedrockagentcorecontrol"
    "cloudfront"
    "cloudtrail"
    "cloudwatch"
    "cloudwatchlogs"
    "codeartifact"
    "cognitoidentityprovider"
    "documentdb"
    "dynamodb"
    "ec2"
    "ecr"
    "ecrpublic"
    "ecs"
    "efs"
    "eks"
    "elasticache"
    "elasticsearchservice"
    "elbv2"
    "emrcontainers"
    "emrserverless"
    "eventbridge"
    "firehose"
    "iam"
    "kafka"
    "keyspaces"
    "kinesis"
    "kms"
    "lambda"
    "lambdamicrovms"
    "memorydb"
    "mq"
    "mwaa"
    "networkfirewall"
    "networkmanager"
    "opensearchserverless"
    "opensearchservice"
    "organizations"
    "pipes"
    "prometheusservice"
    "quicksight"
    "ram"
    "rds"
    "recyclebin"
    "route53"
    "route53resolver"
    "s3"
    "s3control"
    "s3tables"
    "s3vectors"
    "sagemaker"
    "secretsmanager"
    "ses"
    "sfn"
    "sns"
    "sqs"
    "ssm"
    "wafv2"
};

/// The rules of every service; without those of [`faults`].
pub fn all() -> &'static [ServiceRules] {
    &READ.0
}

/// Files that cannot be read. A test keeps them from being published; whoever sets AWS up refuses to without them.
pub fn faults() -> &'static [RulesError] {
    &READ.1
}

static READ: LazyLock<(Vec<ServiceRules>, Vec<RulesError>)> = LazyLock::new(|| {
    let (mut rules, mut faults) = (Vec::new(), Vec::new());
    for (name, text) in FILES {
        match ServiceRules::parse(name, text) {
            Ok(read) => rules.push(read),
            Err(fault) => faults.push(fault),
        }
    }
    (rules, faults)
});

#[cfg(test)]
mod tests;
