//! Any cloud as objects, by Terraform provider plugins.
