//! Names that others depend on: KubeFlex's, letter for letter.

pub const GROUP: &str = "tenancy.kflex.kubestellar.org";
pub const API_VERSION: &str = "tenancy.kflex.kubestellar.org/v1alpha1";

/// As the store and the runtime call the kinds.
pub const CONTROL_PLANES: &str = "controlplanes.tenancy.kflex.kubestellar.org";
pub const HOOKS: &str = "postcreatehooks.tenancy.kflex.kubestellar.org";

pub const FINALIZER: &str = "kflex.kubestellar.org/finalizer";
pub const SYSTEM_NAMESPACE: &str = "kubeflex-system";
pub const SYSTEM_CONFIG: &str = "kubeflex-config";
/// The operator as it signs events, and the account it acts as.
pub const COMPONENT: &str = "kubeflex-controlplane-controller";
pub const OPERATOR_ACCOUNT: &str = "kubeflex-controller-manager";

/// Field managers: what hooks apply, and what the operator itself does.
pub const HOOK_MANAGER: &str = "kubeflex";
pub const MANAGER: &str = "hangar";

/// On hooks: who wrote them, written by the server.
pub const AUTHORS: &str = "hangar.dev/authors";

/// How cluster-scoped objects of hooks are found again.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub const MANAGED_BY_VALUE: &str = "Helm";
pub const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// When the keys of a control plane were last changed by command: its kubeconfigs are written anew.
pub const KEYS_CHANGED: &str = "hangar.dev/keys-changed-at";
/// Marks workloads that stand for something this process does itself: no controller is to make pods of them.
pub const STAND_IN: &str = "hangar.dev/stand-in";

const SUFFIX: &str = "-system";

/// The namespace of a control plane's objects in the hosting one.
pub fn namespace(control_plane: &str) -> String {
    format!("{control_plane}{SUFFIX}")
}

/// The control plane that a namespace is of, if its name is such a name.
pub fn control_plane_of(namespace: &str) -> Option<&str> {
    namespace.strip_suffix(SUFFIX).filter(|name| !name.is_empty())
}

/// The Secret in [`SYSTEM_NAMESPACE`] by which the command line gives the operator access to a cluster to adopt.
pub fn bootstrap(control_plane: &str) -> String {
    format!("{control_plane}-bootstrap")
}
