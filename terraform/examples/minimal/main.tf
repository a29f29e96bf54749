# The least: buckets, a database, an EMR Serverless application. Whoever runs `terraform apply` here may then start jobs as the account's
# administrators may; give others the caller role (see ../complete).

terraform {
  required_version = ">= 1.9.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.0.0, < 7.0.0"
    }
  }
}

provider "aws" {}

module "compactor" {
  source = "../../"

  name     = "compactor-dev"
  database = { name = "school" }
}

output "compactor_yaml" {
  description = "The first lines of compactor.yaml."
  value       = <<-EOT
    warehouse: ${module.compactor.warehouse}
    catalog: {type: glue, database: ${module.compactor.databases.name}}
  EOT
}

output "application_id" {
  description = "Where jobs are started."
  value       = module.compactor.application_id
}

output "job_role_arn" {
  description = "The role that jobs run as."
  value       = module.compactor.job_role_arn
}
