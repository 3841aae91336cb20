//! AWS as objects: service models, protocols, signing, resource rules.
