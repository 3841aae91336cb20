#![cfg_attr(fuzzing, no_main)]

hangar_fuzz::fuzz!("audit_policy");
