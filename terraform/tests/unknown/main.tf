# A configuration in which every name, ARN and id comes from a resource that does not exist yet, so Terraform knows none of them when it plans.
# tests/unknown.tftest.hcl plans it; tests/terraform/test_module.py checks that no input is missing.

terraform {
  required_version = ">= 1.9.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.19.0, < 7.0.0"
    }
  }
}

resource "terraform_data" "later" {}

locals {
  later = terraform_data.later.id
}

module "compactor" {
  source = "../../"

  name        = local.later
  tags        = { owner = local.later }
  code_bucket = local.later
  logs_bucket = local.later
  kms_key     = { arn = local.later }
  lake        = { create = false, bucket = local.later, kms_key_arn = local.later, warehouse = local.later }
  landing     = [{ bucket = local.later, prefix = local.later, kms_key_arn = local.later }]
  database    = { name = local.later, tables = { name = local.later } }

  archive_keys = { default = { existing = { arn = local.later } }, orders = { role_arns = [local.later] } }
  hash_secret  = { arn = local.later, kms_key_arn = local.later }

  roles = {
    path                     = local.later
    permissions_boundary_arn = local.later
    names                    = { job = local.later, caller = local.later, mwaa = local.later, emr_service = local.later, emr_instance = local.later }
  }

  serverless = {
    subnet_ids         = [local.later]
    security_group_ids = [local.later]
  }

  cluster = {
    subnet_id                 = local.later
    primary_security_group_id = local.later
    core_security_group_id    = local.later
    service_security_group_id = local.later
  }

  mwaa = {
    subnet_ids         = [local.later, local.later]
    security_group_ids = [local.later]
    requirements       = { key = local.later, version = local.later }
    plugins            = { key = local.later, version = local.later }
    startup_script     = { key = local.later, version = local.later }
  }

  callers       = { trusted = { arns = [local.later] }, roles = { workers = local.later } }
  notifications = { topic = { arn = local.later }, emails = ["data@example.com"] }
  alarms        = { namespace = local.later, tables = { orders = 90 } }

  vpc_endpoints = {
    vpc_id             = local.later
    route_table_ids    = [local.later]
    subnet_ids         = [local.later]
    security_group_ids = [local.later]
  }

  lake_formation = { readers = { analysts = local.later }, tables = ["orders"], register = true }
}

# Lists of which not even the length is known, and the parts that the first call leaves out.
module "lists" {
  source = "../../"

  name          = local.later
  database      = { name = local.later }
  lake          = { bucket = local.later }
  serverless    = { subnet_ids = split(",", local.later), security_group_ids = split(",", local.later) }
  mwaa          = { subnet_ids = split(",", local.later), security_group_ids = split(",", local.later) }
  callers       = { trusted = { arns = split(",", local.later) } }
  archive       = { tables = toset(split(",", local.later)) }
  archive_keys  = { default = { role_arns = split(",", local.later) } }
  vpc_endpoints = { vpc_id = local.later, route_table_ids = split(",", local.later), subnet_ids = split(",", local.later), security_group_ids = split(",", local.later) }
}

output "plan" {
  description = "What is known of the plan."
  value = {
    policies  = keys(module.compactor.job_policies)
    lake      = module.compactor.buckets.lake
    warehouse = module.lists.warehouse
  }
}
