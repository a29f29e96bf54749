# Inputs that cannot be meant are refused before anything is planned, each by its own variable.

mock_provider "aws" {}

variables {
  name     = "compactor"
  database = { name = "school" }
}

run "a_name_that_no_bucket_can_have" {
  command = plan
  variables { name = "Compactor_1" }
  expect_failures = [var.name]
}

run "a_name_too_long_for_a_bucket_with_account_and_region" {
  command = plan
  variables { name = "compactor-for-every-school-of-the-country" }
  expect_failures = [var.name]
}

run "an_existing_lake_without_a_name" {
  command = plan
  variables { lake = { create = false } }
  expect_failures = [var.lake]
}

run "a_warehouse_that_is_the_whole_bucket" {
  command = plan
  variables { lake = { warehouse = "" } }
  expect_failures = [var.lake]
}

run "a_warehouse_with_a_slash_at_its_end" {
  command = plan
  variables { lake = { warehouse = "cdc/" } }
  expect_failures = [var.lake]
}

run "a_warehouse_that_names_no_object" {
  command = plan
  variables { lake = { warehouse = "cdc/../lake" } }
  expect_failures = [var.lake]
}

run "a_key_for_a_bucket_that_is_made_here" {
  command = plan
  variables { lake = { kms_key_arn = "arn:aws:kms:eu-west-1:123456789012:key/1" } }
  expect_failures = [var.lake]
}

run "landing_that_is_a_whole_bucket" {
  command = plan
  variables { landing = [{ bucket = "kafka", prefix = "" }] }
  expect_failures = [var.landing]
}

run "landing_that_is_a_pattern" {
  command = plan
  variables { landing = [{ bucket = "kafka", prefix = "*" }] }
  expect_failures = [var.landing]
}

run "an_archive_that_rebuild_could_not_read" {
  command = plan
  variables { archive = { tables = ["orders"], storage_class = "DEEP_ARCHIVE" } }
  expect_failures = [var.archive]
}

run "an_archive_gone_before_it_moves" {
  command = plan
  variables { archive = { tables = ["orders"], expiration_days = 30 } }
  expect_failures = [var.archive]
}

run "an_alias_instead_of_an_archive_key" {
  command = plan
  variables { archive_keys = { default = { existing = { arn = "arn:aws:kms:eu-west-1:123456789012:alias/mine" } } } }
  expect_failures = [var.archive_keys]
}

run "an_archive_key_for_everybody" {
  command = plan
  variables { archive_keys = { default = { role_arns = ["*"] } } }
  expect_failures = [var.archive_keys]
}

run "an_archive_key_for_no_table" {
  command = plan
  variables { archive_keys = { "school.orders" = {} } }
  expect_failures = [var.archive_keys]
}

run "a_name_instead_of_a_secret" {
  command = plan
  variables { hash_secret = { arn = "hashes" } }
  expect_failures = [var.hash_secret]
}

run "a_database_that_hive_cannot_name" {
  command = plan
  variables { database = { name = "My-School" } }
  expect_failures = [var.database]
}

run "an_alias_instead_of_a_key" {
  command = plan
  variables { kms_key = { arn = "arn:aws:kms:eu-west-1:123456789012:alias/mine" } }
  expect_failures = [var.kms_key]
}

run "a_release_the_job_does_not_run_on" {
  command = plan
  variables { serverless = { release_label = "emr-6.15.0" } }
  expect_failures = [var.serverless]
}

run "subnets_without_security_groups" {
  command = plan
  variables { serverless = { subnet_ids = ["subnet-a"] } }
  expect_failures = [var.serverless]
}

run "airflow_2" {
  command = plan
  variables { mwaa = { subnet_ids = ["a", "b"], security_group_ids = ["sg"], airflow_version = "2.10.3" } }
  expect_failures = [var.mwaa]
}

run "airflow_in_one_subnet" {
  command = plan
  variables { mwaa = { subnet_ids = ["a"], security_group_ids = ["sg"] } }
  expect_failures = [var.mwaa]
}

run "everybody_as_caller" {
  command = plan
  variables { callers = { trusted = { arns = ["*"] } } }
  expect_failures = [var.callers]
}

run "a_retention_that_cloudwatch_does_not_have" {
  command = plan
  variables { log_retention_days = 100 }
  expect_failures = [var.log_retention_days]
}

run "a_namespace_of_aws" {
  command = plan
  variables { alarms = { namespace = "AWS/S3" } }
  expect_failures = [var.alarms]
}

run "a_period_of_half_minutes" {
  command = plan
  variables { alarms = { period_minutes = 1.5 } }
  expect_failures = [var.alarms]
}

run "nobody_as_caller" {
  command = plan
  variables { callers = { trusted = { arns = [] } } }
  expect_failures = [var.callers]
}

run "a_database_for_tables_that_is_the_same" {
  command = plan
  variables { database = { name = "school", tables = { name = "school" } } }
  expect_failures = [var.database]
}

run "a_path_of_roles_without_slashes" {
  command = plan
  variables { roles = { path = "data" } }
  expect_failures = [var.roles]
}

run "a_boundary_that_is_a_role" {
  command = plan
  variables { roles = { permissions_boundary_arn = "arn:aws:iam::123456789012:role/boundary" } }
  expect_failures = [var.roles]
}

run "a_package_folder_without_its_files" {
  command = plan
  variables { mwaa = { subnet_ids = ["a", "b"], security_group_ids = ["sg"], package = "./tests/unknown" } }
  expect_failures = [var.mwaa]
}

run "a_package_and_objects_at_once" {
  command = plan
  variables { mwaa = { subnet_ids = ["a", "b"], security_group_ids = ["sg"], package = "./tests/package", plugins = { key = "plugins.zip", version = "1" } } }
  expect_failures = [var.mwaa]
}

run "a_package_version_that_is_a_path" {
  command = plan
  variables { package_version = "jobs/1" }
  expect_failures = [var.package_version]
}

run "interface_endpoints_without_subnets" {
  command = plan
  variables { vpc_endpoints = { vpc_id = "vpc-1", route_table_ids = ["rtb-1"] } }
  expect_failures = [var.vpc_endpoints]
}

run "readers_that_are_names" {
  command = plan
  variables { lake_formation = { readers = { analysts = "analysts" } } }
  expect_failures = [var.lake_formation]
}
