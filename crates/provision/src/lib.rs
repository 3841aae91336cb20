//! The cloud engine: one reconcile for every cloud resource.
