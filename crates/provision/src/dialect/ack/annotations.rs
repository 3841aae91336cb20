//! Names that users of ACK know.

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = concat!("services.k8s.aws/", $text);)*
    };
}

names! {
    /// Written once a resource was taken over.
    ADOPTED = "adopted";
    REGION = "region";
    /// On an object; on a namespace it has the service and a dot before it.
    DELETION_POLICY = "deletion-policy";
    READ_ONLY = "read-only";
    ADOPTION_POLICY = "adoption-policy";
    ADOPTION_FIELDS = "adoption-fields";
    /// The rest is for namespaces.
    OWNER_ACCOUNT_ID = "owner-account-id";
    TEAM_ID = "team-id";
    DEFAULT_REGION = "default-region";
    ENDPOINT_URL = "endpoint-url";
}

/// What failures of roles that are not there are called.
pub const ROLE_NOT_AVAILABLE: &str = "IAMRoleNotAvailable";
