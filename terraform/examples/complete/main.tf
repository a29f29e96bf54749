# All parts: landing in a separate bucket, archives that move to colder storage, an EMR cluster beside EMR Serverless, Airflow, alarms.
# It costs money while it exists; docs/aws.md lists the costs. In this folder:
#
#   compactor package --mwaa mwaa          # what MWAA installs; the module uploads it
#   terraform init && terraform apply
#   compactor package "$(terraform output -raw job_package)"
#   terraform output -raw compactor_yaml > compactor.yaml          # then add `tables:`
#   aws s3 sync ../../../dags "$(terraform output -raw dags)" --exclude '*' --include '*.py'
#   aws s3 cp compactor.yaml "$(terraform output -raw dags)/compactor.yaml"

terraform {
  required_version = ">= 1.9.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.19.0, < 7.0.0"
    }
  }
}

provider "aws" {
  region = var.region
}

module "compactor" {
  source = "../../"

  name = "compactor-prod"
  tags = { team = "data-platform", service = "compactor" }

  lake = {
    warehouse       = "cdc"
    noncurrent_days = 14
  }

  # Kafka Connect writes to its own bucket, encrypted with its own key.
  landing = [{
    bucket      = var.landing_bucket
    prefix      = "topics"
    kms_key_arn = var.landing_kms_key_arn
  }]

  archive = {
    tables          = ["orders", "order_lines", "payments"]
    transition_days = 60
    expiration_days = 730
  }

  # Raw files can be read by jobs only; payments have a key of their own.
  archive_keys = {
    default  = {}
    payments = {}
  }

  # The secret of hashed columns and erased keys, which jobs read.
  hash_secret = { arn = var.hash_secret_arn }

  database = {
    name   = "school"
    tables = { name = "school_internal" }
  }

  serverless = {
    maximum_cpu         = "200 vCPU"
    maximum_memory      = "800 GB"
    maximum_disk        = "4000 GB"
    max_concurrent_runs = 50
    subnet_ids          = var.private_subnet_ids
    security_group_ids  = [var.security_group_id]
  }

  cluster = {
    subnet_id                 = var.private_subnet_ids[0]
    primary_security_group_id = var.emr_security_group_ids.primary
    core_security_group_id    = var.emr_security_group_ids.core
    service_security_group_id = var.emr_security_group_ids.service
    termination_protection    = true
  }

  mwaa = {
    subnet_ids         = var.private_subnet_ids
    security_group_ids = [var.security_group_id]
    environment_class  = "mw1.medium"
    max_workers        = 10
    package            = "${path.module}/mwaa"
    options            = { "core.default_task_retries" = "2" }
  }

  callers = {
    trusted = { arns = var.operator_role_arns }
  }

  notifications = {
    emails = ["data-platform@example.com"]
  }

  alarms = {
    freshness_minutes_max = 180
    tables                = { orders = 90, payments = 90 }
  }

  dashboard = true

  log_retention_days = 365

  roles = {
    path                     = "/data-platform/"
    permissions_boundary_arn = var.permissions_boundary_arn
  }

  vpc_endpoints = {
    vpc_id             = var.vpc_id
    route_table_ids    = var.private_route_table_ids
    subnet_ids         = var.private_subnet_ids
    security_group_ids = [var.security_group_id]
  }

  lake_formation = {
    readers = { analysts = var.analysts_role_arn }
    tables  = ["orders", "payments"] # after their first run
  }
}
