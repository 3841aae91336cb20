//! What each call is named in each version of the protocol.

/// A version of the plugin protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    V5,
    V6,
}

impl Version {
    pub fn of_number(number: u32) -> Option<Version> {
        match number {
            5 => Some(Version::V5),
            6 => Some(Version::V6),
            _ => None,
        }
    }

    pub fn number(self) -> u32 {
        match self {
            Version::V5 => 5,
            Version::V6 => 6,
        }
    }
}

/// What can be asked of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    GetProviderSchema,
    GetResourceIdentitySchemas,
    ValidateProviderConfig,
    ConfigureProvider,
    ValidateResourceConfig,
    UpgradeResourceState,
    UpgradeResourceIdentity,
    ReadResource,
    PlanResourceChange,
    ApplyResourceChange,
    ImportResourceState,
    MoveResourceState,
    GenerateResourceConfig,
    ValidateDataResourceConfig,
    ReadDataSource,
    CallFunction,
    ValidateEphemeralResourceConfig,
    OpenEphemeralResource,
    RenewEphemeralResource,
    CloseEphemeralResource,
    ValidateListResourceConfig,
    ListResource,
    StopProvider,
    /// Not the provider's but go-plugin's: end the process.
    Shutdown,
    /// And what it writes, for as long as it runs.
    StreamStdio,
}

/// (call, path in protocol 5, path in protocol 6)
const PATHS: [(Call, &str, &str); 25] = {
    use Call::*;
    macro_rules! both {
        ($call:ident) => {
            (
                $call,
                concat!("/tfplugin5.Provider/", stringify!($call)),
                concat!("/tfplugin6.Provider/", stringify!($call)),
            )
        };
        ($call:ident, $five:literal) => {
            (
                $call,
                concat!("/tfplugin5.Provider/", $five),
                concat!("/tfplugin6.Provider/", stringify!($call)),
            )
        };
    }
    [
        both!(GetProviderSchema, "GetSchema"),
        both!(GetResourceIdentitySchemas),
        both!(ValidateProviderConfig, "PrepareProviderConfig"),
        both!(ConfigureProvider, "Configure"),
        both!(ValidateResourceConfig, "ValidateResourceTypeConfig"),
        both!(UpgradeResourceState),
        both!(UpgradeResourceIdentity),
        both!(ReadResource),
        both!(PlanResourceChange),
        both!(ApplyResourceChange),
        both!(ImportResourceState),
        both!(MoveResourceState),
        both!(GenerateResourceConfig),
        both!(ValidateDataResourceConfig, "ValidateDataSourceConfig"),
        both!(ReadDataSource),
        both!(CallFunction),
        both!(ValidateEphemeralResourceConfig),
        both!(OpenEphemeralResource),
        both!(RenewEphemeralResource),
        both!(CloseEphemeralResource),
        both!(ValidateListResourceConfig),
        both!(ListResource),
        both!(StopProvider, "Stop"),
        (Shutdown, "/plugin.GRPCController/Shutdown", "/plugin.GRPCController/Shutdown"),
        (StreamStdio, "/plugin.GRPCStdio/StreamStdio", "/plugin.GRPCStdio/StreamStdio"),
    ]
};

impl Call {
    /// The path of the request.
    pub fn path(self, version: Version) -> &'static str {
        // The table is in the order of the variants; a test holds it to that.
        let (_, five, six) = PATHS[self as usize];
        match version {
            Version::V5 => five,
            Version::V6 => six,
        }
    }

    /// Whether a provider answers it by asking its cloud. Plans it computes: one that looks something up for it does
    /// so beside the Read before the plan or the Apply after it, which wait for their turn.
    pub fn reaches_the_cloud(self) -> bool {
        use Call::*;
        matches!(
            self,
            ConfigureProvider
                | ReadResource
                | ApplyResourceChange
                | ImportResourceState
                | ReadDataSource
                | OpenEphemeralResource
                | RenewEphemeralResource
                | CloseEphemeralResource
                | ListResource
        )
    }

    /// As protocol 6 calls it, for people.
    pub fn name(self) -> &'static str {
        self.path(Version::V6).rsplit('/').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        for (index, (call, ..)) in PATHS.iter().enumerate() {
            assert_eq!(*call as usize, index);
        }
        assert_eq!(Call::StopProvider.path(Version::V5), "/tfplugin5.Provider/Stop");
        assert_eq!(Call::ConfigureProvider.path(Version::V6), "/tfplugin6.Provider/ConfigureProvider");
        assert_eq!(Call::ReadResource.name(), "ReadResource");
    }
}
