//! The store on PostgreSQL: one schema for all tenants.
